"""SQLite's files while a server has them open: whether what is committed to them will be found at the next start."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from ..errors import StoreLost, StoreUnavailable

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_BACK = "nothing more is written to it: stop the server, put the file back and start it again"
_AGAIN = "what was in it was put into the file, and nothing more is written: start the server again"
_WHILE_IT_GROWS = (0.001, 0.004, 0.02, 0.02)  # seconds: the header, which says its size, is written first


class SqliteFiles:
    """The database `given`, which is really at `path` and open as `file`, with SQLite's two files beside it."""

    def __init__(self, given: Path, path: Path, file: int) -> None:
        self._given = str(given)
        self._file = file
        self._turn = threading.Lock()  # of what is remembered below
        self._at = os.fstat(file)
        self.identity = (self._at.st_dev, self._at.st_ino)
        self.names = self._at.st_nlink
        self._log, self._index = ((f"{path}-{kind}", (0, 0)) for kind in ("wal", "shm"))
        self.lost = False  # as the last check found
        self._watched = False
        self._size = self._changed = self._counter = 0

    def watch(self) -> None:
        """They are all there now, and stay for as long as a connection is open: SQLite removes none before."""
        self._log, self._index = ((path, identity(path)) for path, _ in (self._log, self._index))
        self._at = os.fstat(self._file)
        self._remember(os.pread(self._file, _HEADER, 0))
        self._watched = True

    def check(self, *, index: bool = True, settled: bool | None = None) -> None:
        """Raise `StoreLost` if the path leads to another file, or to this one with another content, or if the log
        beside it is gone. `index`: or the log's index, without which nothing is lost, but others cannot write beside
        us. `settled`: all that is in the log is in the file, as far as anybody knows. Where it is not, as long as
        somebody reads, the file may be shorter than its header says; if nobody knows, that is `StoreUnavailable`."""
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
            self._at = os.stat(self._given)  # noqa: PTH116 - at each commit: a `Path` takes three times as long
        except OSError as error:
            return f"is not where it was: it was deleted or moved ({error.strerror})"
        if (self._at.st_dev, self._at.st_ino) != self.identity:
            return "was replaced by another file"
        return ""

    def _overwritten(self, settled: bool | None) -> str:
        """What is wrong with a file that was written to: it should have been by SQLite, which only counts up."""
        if (self._at.st_size, self._at.st_mtime_ns) == (self._size, self._changed):
            return ""
        header, short = self._header()
        for wait in _WHILE_IT_GROWS if settled and short else ():
            time.sleep(wait)
            header, short = self._header()
        if not header.startswith(_MAGIC) or (short and (settled or self._at.st_size < self._size)):
            return "was cut off or overwritten"
        if short and settled is None:
            raise StoreUnavailable(f"the database {self._given} is shorter than it says it is")
        if _counter_in(header) < self._counter:
            return "was overwritten with another one"
        self._remember(header)
        return ""

    def _header(self) -> tuple[bytes, bool]:
        """The file's header, and whether the file is shorter than that says."""
        header = os.pread(self._file, _HEADER, 0)
        return header, os.fstat(self._file).st_size < _size_in(header)

    def _remember(self, header: bytes) -> None:
        self._size, self._changed = self._at.st_size, self._at.st_mtime_ns
        self._counter = _counter_in(header)


def _size_in(header: bytes) -> int:
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return pages * (65_536 if page == 1 else page)


def _counter_in(header: bytes) -> int:
    """What SQLite counts up whenever it changes the first page."""
    return int.from_bytes(header[24:28])


def identity(path: str) -> tuple[int, int]:
    """Which file `path` leads to: its device and inode, zeros if there is none."""
    try:
        at = os.stat(path)  # noqa: PTH116 - likewise
    except OSError:
        return 0, 0
    return at.st_dev, at.st_ino
