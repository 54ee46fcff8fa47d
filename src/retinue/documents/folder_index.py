"""Files as documents, and the incremental index of a folder: read once, and then only what has changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ..core.values import Document
from ..errors import DataError, UsageError
from .document_store import DocumentStore
from .embedding import Embedder
from .retrieval import read_vectors
from .splitter import split_document
from .text_extraction import READABLE, extract_text, guess_media_type

MAX_FILE = 50_000_000  # bytes
STORE = Path(".retinue", "documents.sqlite")  # default location, relative to the folder
_PAUSE = 1.0  # seconds of work that an interruption may lose

Report = Callable[[str, int, int], None]  # path of the file, its number, and the total


def read_document(path: str | Path, folder: Path | None = None) -> Document:
    """Return the text of a file as a document with its `path`, which is also its id, and its `title` in `meta`.

    With a `folder`, the path is relative to it and may not lead out of it. Raises `DataError` with the path for a file
    that cannot be read, or is larger than 50 MB.
    """
    return _make_document(str(path), read_file_in(path, folder))


def read_file_in(path: str | Path, folder: Path | None) -> bytes:
    """Return the contents of a file of `folder`, as `read_document` reads it. Raises `DataError` with the path."""
    found = Path(path).expanduser() if folder is None else folder / path
    try:
        inside = folder is None or found.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a null byte
        raise DataError(f"{str(path)!r}: cannot be resolved") from error
    if not inside:
        raise DataError(f"{path}: leads out of the folder")
    return _read_data(found, str(path))


def _read_data(file: Path, shown: str) -> bytes:
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


def _make_document(path: str, data: bytes) -> Document:
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


def read_folder(folder: Path, problems: list[str]) -> Iterator[Document]:
    """Yield the text of each file under `folder` that `index_folder` reads, and add a line to `problems` for others."""
    for path, _ in sorted(_find_files(folder, problems)):
        try:
            yield _make_document(path, _read_data(folder / path, path))
        except DataError as error:
            problems.append(str(error))
        except UsageError as error:
            problems.append(f"{path}: {error}")


def _find_files(folder: Path, problems: list[str], own: Collection[Path] = ()) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the readable files under `folder` that are not the store's `own`: relative path and `stat` result."""

    def note_error(error: OSError) -> None:
        place = Path(error.filename)
        shown = folder if place == folder else place.relative_to(folder)
        problems.append(f"{shown}: {error.strerror or error}")

    for place, folders, names in os.walk(folder, onerror=note_error):
        inner = Path(place).relative_to(folder)
        folders[:] = [name for name in folders if _is_visible((inner / name).as_posix(), problems)]
        for path in ((inner / name).as_posix() for name in names):
            if not _is_visible(path, problems) or (own and (folder / path).absolute() in own):
                continue
            try:
                found = (folder / path).lstat()
            except OSError as error:
                note_error(error)
                continue
            if S_ISREG(found.st_mode) and guess_media_type(path) is None:
                problems.append(f"{path}: cannot be read (want {READABLE}, and a name that says which)")
            elif S_ISREG(found.st_mode):
                yield path, found


def _is_visible(path: str, problems: list[str]) -> bool:
    """Return whether a file or folder is not hidden, and its name is a text; otherwise that is a problem."""
    if Path(path).name.startswith("."):
        return False
    try:
        path.encode()
    except UnicodeEncodeError:
        problems.append(f"{path!r}: its name is not UTF-8")
        return False
    return True


@dataclass(slots=True)
class Indexed:
    """The result of indexing: numbers of files and pieces, and a line for each file that could not be read."""

    new: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    pieces: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _File:
    """A file's state when it was read. `made`: the splitter's settings. `pieces`: their number."""

    path: str
    size: int
    modified: int
    hash: str = ""
    made: str = ""
    pieces: int = 0


def index_folder(
    folder: str | Path,
    store: DocumentStore,
    *,
    size: int = 1_000,
    embedder: Embedder | None = None,
    report: Report | None = None,
) -> Indexed:
    """Index the files under `folder` in `store`, in pieces of at most `size` characters, with vectors if there is an
    `embedder`.

    Files of HTML, PDF, Word, Excel, PowerPoint, Markdown and plain text are read. Hidden ones and links are skipped,
    others are problems. A file with unchanged size and time, or unchanged content, is skipped; one that is missing or
    unreadable is removed. Each file is indexed entirely or not at all, even if indexing is interrupted. A piece has the
    file's `path` relative to the folder, its `title` and `part` in `meta`; its id is `path#part`. Raises `DataError` if
    `folder` is not a folder, and `UsageError` for a store of another folder.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    if size < 1:
        raise UsageError(f"size must be at least 1, not {size}")
    # a store keeps its folder's path relative to itself, so that both may move together
    beside = Path() if store.path == ":memory:" else Path(store.path).expanduser().resolve().parent
    place = os.path.relpath(folder.resolve(), beside)
    with store.transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO settings VALUES ('folder', ?)", (place,))
        held = connection.execute("SELECT value FROM settings WHERE name = 'folder'").get
    if held != place:
        raise UsageError(f"{store.path} is the index of {(beside / held).resolve()}; use another store for {folder}")
    return _Indexing(folder, store, size, embedder).run(report)


class _Indexing:
    """One pass over a folder."""

    def __init__(self, folder: Path, store: DocumentStore, size: int, embedder: Embedder | None) -> None:
        self._folder, self._store, self._size, self._embedder = folder, store, size, embedder
        self._made = f"{size} {type(embedder).__name__} {embedder.dimensions}" if embedder else f"{size}"
        rows = store.read_rows("SELECT path, size, modified, hash, made, pieces FROM files")
        self._known = {row[0]: _File(*row) for row in rows}
        self._done = Indexed()
        self._waiting: list[tuple[_File, list[Document] | None, Any]] = []

    def run(self, report: Report | None) -> Indexed:
        own = {Path(f"{self._store.path}{ending}").absolute() for ending in ("", "-wal", "-shm", "-journal")}
        files = sorted(_find_files(self._folder, self._done.problems, own))
        saved = time.monotonic()
        for number, (path, found) in enumerate(files, 1):
            if report is not None:
                report(path, number, len(files))
            self._look_at(path, found)
            if time.monotonic() - saved > _PAUSE:
                self._save()
                saved = time.monotonic()
        self._save()
        self._remove(set(self._known) - {path for path, _ in files})
        return self._done

    def _look_at(self, path: str, found: os.stat_result) -> None:
        now, known = _File(path, found.st_size, found.st_mtime_ns, made=self._made), self._known.get(path)
        if known is not None and replace(known, hash="", pieces=0) == now:
            self._done.unchanged += 1
            return
        try:
            data = _read_data(self._folder / path, path)
            now = replace(now, hash=hashlib.sha256(data).hexdigest())
            if known is not None and (known.hash, known.made) == (now.hash, now.made):
                self._done.unchanged += 1
                self._waiting.append((replace(now, pieces=known.pieces), None, None))
                return
            pieces = split_document([_make_document(path, data)], self._size)
        except DataError as error:
            self._done.problems.append(str(error))
            self._remove({path} & set(self._known))
            return
        vectors = read_vectors(pieces, self._embedder) if self._embedder else None
        self._waiting.append((replace(now, pieces=len(pieces)), pieces, vectors))
        self._done.new += known is None
        self._done.changed += known is not None
        self._done.pieces += len(pieces)

    def _save(self) -> None:
        """Write the files read so far in one transaction, since one per file would wait for the disk each time."""
        waiting, self._waiting = self._waiting, []
        with self._store.transaction() as connection:
            for file, pieces, vectors in waiting:
                if pieces is not None:
                    self._store.delete(ids=self._list_pieces(file.path))
                    self._store.write(pieces, vectors)
                row = (file.path, file.size, file.modified, file.hash, file.made, file.pieces)
                connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

    def _remove(self, paths: set[str]) -> None:
        with self._store.transaction() as connection:
            for path in paths:
                self._store.delete(ids=self._list_pieces(path))
                connection.execute("DELETE FROM files WHERE path = ?", (path,))
        self._done.removed += len(paths)

    def _list_pieces(self, path: str) -> list[str]:
        known = self._known.get(path)
        return [f"{path}#{part}" for part in range(known.pieces)] if known else []
