"""Files as documents."""

from __future__ import annotations

from pathlib import Path

from ..core.values import Document
from ..errors import DataError
from .text_extraction import READABLE, extract_text, guess_media_type

MAX_FILE = 50_000_000  # bytes


def read_document(path: str | Path, folder: Path | None = None) -> Document:
    """Return the text of a file as a document with its `path`, which is also its id, and its `title` in `meta`.

    With a `folder`, the path is relative to it and may not lead out of it. Raises `DataError` with the path for a file
    that cannot be read, or is larger than 50 MB.
    """
    return make_document(str(path), read_file_in(path, folder))


def read_file_in(path: str | Path, folder: Path | None) -> bytes:
    """Return the contents of a file of `folder`, as `read_document` reads it. Raises `DataError` with the path."""
    found = Path(path).expanduser() if folder is None else folder / path
    try:
        inside = folder is None or found.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a null byte
        raise DataError(f"{str(path)!r}: cannot be resolved") from error
    if not inside:
        raise DataError(f"{path}: leads out of the folder")
    return read_data(found, str(path))


def read_data(file: Path, shown: str) -> bytes:
    """Return the contents of a regular file; `shown` is its name in error messages."""
    try:
        if not file.is_file():  # reading a pipe would block
            raise DataError(f"{shown}: there is no such file")
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE + 1)
    except OSError as error:
        raise DataError(f"{shown}: {error.strerror or error}") from error
    if len(data) > MAX_FILE:
        raise DataError(f"{shown}: is larger than {MAX_FILE / 1e6:,.0f} MB")
    return data


def make_document(path: str, data: bytes) -> Document:
    """Return the text in `data`, the contents of a file called `path`. Raises `DataError` with the path."""
    kind = guess_media_type(path)
    if kind is None:
        raise DataError(f"{path}: cannot be read (want {READABLE}, and a name that says which)")
    try:
        read = extract_text(data, kind)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if not read.text:
        raise DataError(f"{path}: there is no text in it")
    return Document(read.text, path, {"path": path, "title": read.title or Path(path).stem})
