"""Incremental index of a folder: read once, and then only what has changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.values import Document
from ..errors import DataError, UsageError
from .document_store import DocumentStore
from .embedding import Embedder
from .file_documents import make_document, read_data
from .retrieval import read_vectors
from .splitter import split_document
from .text_extraction import READABLE, guess_media_type

STORE = Path(".retinue", "documents.sqlite")  # default location, relative to the folder
_PAUSE = 1.0  # seconds of work that an interruption may lose

Report = Callable[[str, int, int], None]  # path of the file, its number, and the total


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
    file's `path` relative to the folder, its `title` and `part` in `meta`; its id is `path#part`.

    Raises `DataError` if `folder` is not a folder, and `UsageError` for a store of another folder.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    if size < 1:
        raise UsageError(f"size must be at least 1, not {size}")
    _claim_store(store, folder)
    return _Indexing(folder, store, size, embedder).run(report or (lambda *_: None))


def read_folder(folder: Path, problems: list[str]) -> Iterator[Document]:
    """Yield the text of each file under `folder` that `index_folder` reads, and add a line to `problems` for others."""
    for path, _ in sorted(_find_files(folder, problems)):
        try:
            yield make_document(path, read_data(folder / path, path))
        except DataError as error:
            problems.append(str(error))
        except UsageError as error:
            problems.append(f"{path}: {error}")


def _claim_store(store: DocumentStore, folder: Path) -> None:
    """Claim the store for the folder, whose path is stored relative to the store, so that both may move together."""
    own = Path() if store.path == ":memory:" else Path(store.path).expanduser().resolve().parent
    place = os.path.relpath(folder.resolve(), own)
    with store.database.begin_writing() as connection:
        connection.execute("INSERT OR IGNORE INTO settings VALUES ('folder', ?)", (place,))
        held = connection.execute("SELECT value FROM settings WHERE name = 'folder'").get
    if held != place:
        raise UsageError(f"{store.path} is the index of {(own / held).resolve()}; use another store for {folder}")


class _Indexing:
    """One pass over a folder."""

    def __init__(self, folder: Path, store: DocumentStore, size: int, embedder: Embedder | None) -> None:
        self._folder, self._store, self._size, self._embedder = folder, store, size, embedder
        self._made = f"{size} {type(embedder).__name__} {embedder.dimensions}" if embedder else f"{size}"
        rows = store.database.read_rows("SELECT path, size, modified, hash, made, pieces FROM files")
        self._known = {row[0]: _File(*row) for row in rows}
        self._done = Indexed()
        self._waiting: list[tuple[_File, list[Document] | None, Any]] = []

    def run(self, report: Report) -> Indexed:
        own = {Path(f"{self._store.path}{ending}").absolute() for ending in ("", "-wal", "-shm", "-journal")}
        files = sorted(_find_files(self._folder, self._done.problems, own))
        saved = time.monotonic()
        for number, (path, found) in enumerate(files, 1):
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
            data = read_data(self._folder / path, path)
            now = replace(now, hash=hashlib.sha256(data).hexdigest())
            if known is not None and (known.hash, known.made) == (now.hash, now.made):
                self._done.unchanged += 1
                self._waiting.append((replace(now, pieces=known.pieces), None, None))
                return
            pieces = split_document([make_document(path, data)], self._size)
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
                    self._forget(connection, file.path)
                    self._store.write(pieces, vectors)
                connection.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                    (file.path, file.size, file.modified, file.hash, file.made, file.pieces),
                )

    def _remove(self, paths: set[str]) -> None:
        with self._store.transaction() as connection:
            for path in paths:
                self._forget(connection, path)
        self._done.removed += len(paths)

    def _forget(self, connection: Any, path: str) -> None:
        if known := self._known.get(path):
            self._store.delete(ids=[f"{path}#{part}" for part in range(known.pieces)])
            connection.execute("DELETE FROM files WHERE path = ?", (path,))


def _find_files(folder: Path, problems: list[str], own: Collection[Path] = ()) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the readable files under `folder` that are not the store's `own`: relative path and `stat` result."""
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            yield from _list_files(folder, inner, folders, problems, own)
        except OSError as error:
            problems.append(f"{inner or folder}: {error.strerror or error}")


def _list_files(
    folder: Path, inner: str, folders: list[str], problems: list[str], own: Collection[Path]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files directly in the folder `inner`, and add its subfolders to `folders`. Raises `OSError`."""
    with os.scandir(folder / inner) as entries:
        for entry in entries:
            path = f"{inner}/{entry.name}" if inner else entry.name
            if entry.name.startswith(".") or (own and (folder / path).absolute() in own):
                continue
            if not _is_text(path):
                problems.append(f"{path!r}: its name is not UTF-8")
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                if guess_media_type(path) is None:
                    problems.append(f"{path}: cannot be read (want {READABLE}, and a name that says which)")
                else:
                    yield path, entry.stat(follow_symlinks=False)


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False
