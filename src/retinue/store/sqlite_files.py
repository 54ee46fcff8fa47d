"""Checks SQLite's files while a server has them open, so that every commit can be found at the next start."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from ..errors import StoreLost, StoreUnavailable

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_BACK = "nothing more is written to it: stop the server, restore the file, and start it again"
_AGAIN = "its content was moved into the file, and nothing more is written: restart the server"
_WHILE_IT_GROWS = (0.001, 0.004, 0.02, 0.02)  # seconds: the header, which states the size, is written first


class SqliteFiles:
    """The database `given` (real path `path`, descriptor `file`), with SQLite's log and index beside it."""

    def __init__(self, given: Path, path: Path, file: int) -> None:
        self._given = str(given)
        self._file = file
        self._turn = threading.Lock()  # guards the fields below
        self._at = os.fstat(file)
        self.identity = (self._at.st_dev, self._at.st_ino)
        self.names = self._at.st_nlink
        self._log, self._index = ((f"{path}-{kind}", (0, 0)) for kind in ("wal", "shm"))
        self.lost = False  # as of the last check
        self._watched = False
        self._size = self._changed = self._counter = 0

    def watch(self) -> None:
        """Record the current files. SQLite removes none of them while a connection is open."""
        self._log, self._index = ((path, identity(path)) for path, _ in (self._log, self._index))
        self._at = os.fstat(self._file)
        self._remember(os.pread(self._file, _HEADER, 0))
        self._watched = True

    def check(self, *, index: bool = True, settled: bool | None = None) -> None:
        """Raise `StoreLost` if the path leads to another file or other content, or if the log beside it is gone.

        `index` includes the log's index: without it nothing is lost, but other processes cannot write. `settled` says
        whether the whole log was moved into the file. If not, because a reader holds it back, the file may be shorter
        than its header says; if unknown (`None`), that raises `StoreUnavailable`."""
        if not self._watched:
            return
        with self._turn:
            self.lost = True
            if problem := self._moved() or self._overwritten(settled):
                raise StoreLost(f"the database {self._given} {problem}; {_BACK}")
            for path, was in (self._log, self._index) if index else (self._log,):
                if identity(path) != was:
                    problem = f"the database {self._given} has lost {Path(path).name}, its log; {_AGAIN}"
                    raise StoreLost(problem, only_log=True)
            self.lost = False

    def _moved(self) -> str:
        try:
            self._at = os.stat(self._given)  # noqa: PTH116 - on each commit: `Path` takes three times as long
        except OSError as error:
            return f"is not where it was: it was deleted or moved ({error.strerror})"
        if (self._at.st_dev, self._at.st_ino) != self.identity:
            return "was replaced by another file"
        return ""

    def _overwritten(self, settled: bool | None) -> str:
        """Describe what is wrong with a changed file; empty if only SQLite changed it, whose change counter only
        grows."""
        if (self._at.st_size, self._at.st_mtime_ns) == (self._size, self._changed):
            return ""
        header, short = self._header()
        for wait in _WHILE_IT_GROWS if settled and short else ():
            time.sleep(wait)
            header, short = self._header()
        if not header.startswith(_MAGIC) or (short and (settled or self._at.st_size < self._size)):
            return "was cut off or overwritten"
        if short and settled is None:
            raise StoreUnavailable(f"the database {self._given} is shorter than its header says")
        if _counter_in(header) < self._counter:
            return "was overwritten with another one"
        self._remember(header)
        return ""

    def _header(self) -> tuple[bytes, bool]:
        """Return the file's header, and whether the file is shorter than it says."""
        header = os.pread(self._file, _HEADER, 0)
        return header, os.fstat(self._file).st_size < _size_in(header)

    def _remember(self, header: bytes) -> None:
        self._size, self._changed = self._at.st_size, self._at.st_mtime_ns
        self._counter = _counter_in(header)


def _size_in(header: bytes) -> int:
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return pages * (65_536 if page == 1 else page)


def _counter_in(header: bytes) -> int:
    """Return SQLite's change counter, which grows whenever the first page changes."""
    return int.from_bytes(header[24:28])


def identity(path: str) -> tuple[int, int]:
    """Return the device and inode that `path` leads to; zeros if it does not exist."""
    try:
        at = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return 0, 0
    return at.st_dev, at.st_ino
