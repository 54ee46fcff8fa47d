"""The database lock: one server per database, since two would drive the same runs.

A SQLite file is locked by device and inode, whatever path leads to it; PostgreSQL by a session-level advisory lock.
Either can be lost while the server runs, so the holder checks periodically.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text

from ..errors import StoreUnavailable, UsageError
from .db_errors import translate_errors
from .sqlite_files import SqliteFiles, identity

_OURS = 7_373_061_893  # an arbitrary number, unlikely to be used by other applications
_HELD = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1 "
    f"AND classid = {_OURS >> 32} AND objid = {_OURS & 0xFFFFFFFF}"
)
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")
_TAKEN = "stop it, or give this server another --db"
_here: set[tuple[int, int]] = set()  # the files locked by this process


class Lock(Protocol):
    """Held until it is released or lost, or the process ends."""

    retaken: int
    """How often it was lost and retaken; another server may have had the database meanwhile."""

    def watch(self) -> None:
        """Start watching: the database's files exist now and must stay."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the last `check` or `look` found the lock lost."""
        ...

    def check(self) -> None:
        """Raise `StoreUnavailable` if the lock is known to be lost, `StoreLost` if for good. Takes a few
        microseconds."""
        ...

    def look(self, *, settled: bool | None = None) -> None:
        """Check whether the lock is still held, and try to retake it if not. Blocks on the database. Raises as `check`
        does. `settled` says whether a checkpoint moved SQLite's whole log into its file; `None` if none was tried."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


def acquire_lock(engine: Engine) -> Lock:
    """Lock a database, whose file is created if missing. Raises `UsageError` if another server holds the lock, or if
    the file is on a network file system or cannot be opened."""
    return _Session(engine) if engine.dialect.name == "postgresql" else _File(Path(str(engine.url.database)))


class _File:
    """A lock on the database file, and on a `.lock` file beside it, which is the only one that older versions lock.

    SQLite uses another kind of lock (`fcntl`). A process loses those when it closes any descriptor of the file, so ours
    stays open until SQLite is done.
    """

    def __init__(self, given: Path) -> None:
        self.retaken = 0
        given.parent.mkdir(parents=True, exist_ok=True)
        self.path = Path(os.path.realpath(given))
        if (kind := _file_system(self.path.parent)).startswith(_REMOTE):
            raise UsageError(f"{given} is on a network file system ({kind}), where SQLite loses data; use a local disk")
        if identity(str(self.path)) in _here:
            raise UsageError(f"another server has {given} open; {_TAKEN}")
        self._beside = _opened(self.path.with_name(f"{self.path.name}.lock"), given, 0o600)
        try:
            self._file = _opened(self.path, given, 0o644, locks=sys.platform == "linux")
        except BaseException:
            os.close(self._beside)
            raise
        self._files = SqliteFiles(given, self.path, self._file)
        _here.add(self._files.identity)
        if self._files.names > 1:
            self.release()
            raise UsageError(
                f"{given} has {self._files.names} names (hard links), while SQLite's log lies beside only one; "
                f"remove the others: find DIR -samefile {given}"
            )

    def watch(self) -> None:
        self._files.watch()

    @property
    def lost(self) -> bool:
        return self._files.lost

    def check(self) -> None:
        self._files.check(index=self.lost)

    def look(self, *, settled: bool | None = None) -> None:
        self._files.check(settled=settled)

    def release(self) -> None:
        _here.discard(self._files.identity)
        for one in (self._file, self._beside):
            os.close(one)


class _Session:
    """A PostgreSQL advisory lock, which is lost with its connection."""

    def __init__(self, engine: Engine) -> None:
        self.retaken = 0
        self._engine = engine
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._lost = ""
        with translate_errors():
            if not self._take():
                raise UsageError(f"another server has this database open; {_TAKEN}")

    def watch(self) -> None:
        pass  # PostgreSQL manages its own files

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def check(self) -> None:
        if self._lost:
            raise StoreUnavailable(self._lost)

    def look(self, *, settled: bool | None = None) -> None:
        with self._turn:
            try:
                with translate_errors():
                    self.retaken += not self._is_held() and self._take()
            except StoreUnavailable as error:
                self._lost = str(error)
                raise
            if self._connection is None:
                self._lost = "the database: another server has taken it over; stop one of the two servers"
                raise StoreUnavailable(self._lost)
            self._lost = ""

    def release(self) -> None:
        self._let_go()

    def _is_held(self) -> bool:
        """Whether our session still holds the lock. Behind a pool that hands out another session each time, it does
        not."""
        if self._connection is None:
            return False
        try:
            with translate_errors():
                held = self._connection.execute(text(_HELD)).first() is not None
        except StoreUnavailable:
            held = False
        if not held:
            self._let_go()
        return held

    def _take(self) -> bool:
        """Try to take the lock in a new session. Return whether that succeeded."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            taken = bool(connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _OURS}).scalar())
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        if taken:
            self._connection = connection
        else:
            connection.close()
        return taken

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _opened(path: Path, given: Path, mode: int, *, locks: bool = True) -> int:
    """Return a locked descriptor of `path`, created if missing."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror}; give another --db") from error
    try:
        if locks:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise UsageError(f"another server has {given} open; {_TAKEN}") from error
    return file


def _file_system(folder: Path) -> str:
    """Return the type of file system that holds `folder`, empty if unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    here = folder.resolve()
    found = [(len(place), kind) for _, place, kind, *_ in mounts if here.is_relative_to(place)]
    return max(found, default=(0, ""))[1]
