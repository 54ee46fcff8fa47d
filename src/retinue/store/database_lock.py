"""The database lock: one server per SQLite file, and no migration of a PostgreSQL database under an older server that
could not go on.

A SQLite file is locked by device and inode, whatever path leads to it. A server has it alone; agents with a store in
their own processes, and studios, share it. While it is open, it is checked after each commit, so that what was
committed can be found at the next start. Servers share a PostgreSQL database, and a session-level advisory lock. A
migration that is not compatible with older servers needs it alone.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text

from .._internal.processes import call_in_forked_child
from ..errors import StoreLost, StoreUnavailable, UsageError
from .engines import is_pooled, translate_errors
from .migrations import fits, missing_migrations

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_BACK = "nothing more is written to it: stop the server, restore the file, and start it again"
_MOVED = "its content was moved into the file, and nothing more is written: restart the server"
_WHILE_IT_GROWS = (0.001, 0.004, 0.02, 0.02)  # seconds: the header, which states the size, is written first


_OURS = 7_373_061_893  # an arbitrary number, unlikely to be used by other applications
_LOCK = text(f"SELECT pg_try_advisory_lock({_OURS})")
_UNLOCK = text(f"SELECT pg_advisory_unlock({_OURS})")
_SHARE = text(f"SELECT pg_try_advisory_lock_shared({_OURS})")
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")
TAKEN = "stop it, or give this server another --db"
_AGAIN = 0.05  # seconds
_LOCKS = sys.platform == "linux"  # elsewhere, SQLite's own locks conflict with one on the file itself


@dataclass
class _Held:
    """A file that this process has locked: the descriptors of it and of the file beside it, and how many share them."""

    file: int
    beside: int
    alone: bool
    users: int = 1


_here: dict[tuple[int, int], _Held] = {}  # by device and inode
_inherited: set[tuple[int, int]] = set()  # those that were open when this process was forked


def _reset() -> None:
    _inherited.update(_here)
    _here.clear()


call_in_forked_child(_reset)


class Lock(Protocol):
    """Held until it is released or lost, or the process ends."""

    may_migrate: bool
    """Whether nobody is there who would be held up by it."""

    def watch(self) -> None:
        """Start watching: the database is migrated, and its files exist now and must stay."""
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
        """Check whether the lock is still held, and try to take it again if not. Blocks on the database. Raises as
        `check` does. `settled` says whether a checkpoint moved SQLite's whole log into its file; `None` if none was
        tried."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


def acquire_lock(engine: Engine, patience: float = 10.0, *, shared: bool = False) -> Lock:
    """Lock a database, whose file is created if missing; it may be `shared` with others that do so. Waits up to
    `patience` seconds for others that migrate it. Raises `UsageError` if another server holds the lock, or if the file
    is on a network file system or cannot be opened, and `StoreUnavailable` if the database cannot be reached."""
    if engine.dialect.name == "postgresql":
        return _Session(engine, patience)
    return _File(Path(str(engine.url.database)), patience, shared=shared)


class _File:
    """A lock on the database file and on a `.lock` file beside it, and a watch over SQLite's log and index.

    SQLite uses another kind of lock (`fcntl`). A process loses those when it closes any descriptor of the file, so ours
    stays open until SQLite is done, with all databases of this process on the file. A forked child would not have them
    either, while SQLite in it takes them to be held: it cannot open a file that its parent has open.

    The first of those who share the file has it alone until `watch`.
    """

    def __init__(self, given: Path, patience: float, *, shared: bool) -> None:
        given.parent.mkdir(parents=True, exist_ok=True)
        path = Path(os.path.realpath(given))
        if (kind := _file_system(path.parent)).startswith(_REMOTE):
            raise UsageError(f"{given} is on a network file system ({kind}), where SQLite loses data; use a local disk")
        if _identity(str(path)) in _inherited:
            raise UsageError(
                f"{given} was open when this process was forked, which SQLite does not bear: fork before the first run,"
                " or have multiprocessing use 'spawn'"
            )
        self._given = str(given)
        self._shared = shared
        self._held, self.may_migrate = self._take(path, time.monotonic() + patience)
        self._file = self._held.file
        self._turn = threading.Lock()  # guards the fields below
        self._at = os.fstat(self._file)
        self._identity = (self._at.st_dev, self._at.st_ino)
        self._log, self._index = ((f"{path}-{kind}", (0, 0)) for kind in ("wal", "shm"))
        self._lost = self._watched = False
        self._size = self._changed = self._counter = 0
        _here[self._identity] = self._held
        if (names := self._at.st_nlink) > 1:
            self.release()
            raise UsageError(
                f"{given} has {names} names (hard links), while SQLite's log lies beside only one; "
                f"remove the others: find DIR -samefile {given}"
            )

    def _take(self, path: Path, until: float) -> tuple[_Held, bool]:
        """Return the locked descriptors, and whether nobody else has any."""
        given = self._given
        while True:
            held = _here.get(_identity(str(path)))
            if held is not None and self._shared and not held.alone:
                held.users += 1
                return held, False
            taken = held is not None and not held.alone
            if held is None:
                opened = [_opened(one, given) for one in (path.with_name(f"{path.name}.lock"), path)]
                if (alone := _lock_both(opened, fcntl.LOCK_EX)) or (self._shared and _lock_both(opened, fcntl.LOCK_SH)):
                    return _Held(opened[1], opened[0], alone=alone), alone
                taken = not self._shared and _lock_both(opened, fcntl.LOCK_SH)
                for one in opened:
                    os.close(one)
            if not self._shared or time.monotonic() > until:
                who = "an agent that keeps its runs there, or a studio," if taken else "another server"
                raise UsageError(f"{who} has {given} open; {TAKEN}")
            time.sleep(_AGAIN)

    def watch(self) -> None:
        """Record the current files. SQLite removes none of them while a connection is open."""
        self._log, self._index = ((path, _identity(path)) for path, _ in (self._log, self._index))
        self._at = os.fstat(self._file)
        self._remember(os.pread(self._file, _HEADER, 0))
        self._watched = True
        if self._shared and self._held.alone:
            _lock_both([self._file, self._held.beside], fcntl.LOCK_SH, waits=True)
            self._held.alone = False

    @property
    def lost(self) -> bool:
        return self._lost

    def check(self) -> None:
        self._check(index=self._lost)

    def look(self, *, settled: bool | None = None) -> None:
        self._check(settled=settled)

    def release(self) -> None:
        self._held.users -= 1
        if not self._held.users and _here.pop(self._identity, None) is not None:
            for one in (self._file, self._held.beside):
                os.close(one)

    def _check(self, *, index: bool = True, settled: bool | None = None) -> None:
        """Raise `StoreLost` if the path leads to another file or other content, or if the log beside it is gone.

        `index` includes the log's index: without it nothing is lost, but other processes cannot write. `settled` says
        whether the whole log was moved into the file. If not, because a reader holds it back, the file may be shorter
        than its header says; if unknown (`None`), that raises `StoreUnavailable`."""
        if not self._watched:
            return
        with self._turn:
            self._lost = True
            if problem := self._moved() or self._overwritten(settled):
                raise StoreLost(f"the database {self._given} {problem}; {_BACK}")
            for path, was in (self._log, self._index) if index else (self._log,):
                if _identity(path) != was:
                    problem = f"the database {self._given} has lost {Path(path).name}, its log; {_MOVED}"
                    raise StoreLost(problem, only_log=True)
            self._lost = False

    def _moved(self) -> str:
        try:
            self._at = os.stat(self._given)  # noqa: PTH116 - on each commit: `Path` takes three times as long
        except OSError as error:
            return f"is not where it was: it was deleted or moved ({error.strerror})"
        if (self._at.st_dev, self._at.st_ino) != self._identity:
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


class _Session:
    """A PostgreSQL advisory lock of the session: every server shares it. A migration that is not compatible with older
    servers has it alone.

    It is exclusive until `watch` if there is such a migration. If it is lost with its connection, `look` takes it
    again. Behind a pooler there is no such lock.
    """

    may_migrate = True

    def __init__(self, engine: Engine, patience: float) -> None:
        self._engine = engine
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._lost = ""
        self._alone = ""  # for which migration
        until = time.monotonic() + patience
        while not self._take_to_begin():
            if time.monotonic() > until:
                raise UsageError(self._refused())
            time.sleep(_AGAIN)

    def watch(self) -> None:
        if self._alone and self._connection is not None:
            with translate_errors():
                self._connection.execute(_SHARE)
                self._connection.execute(_UNLOCK)

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def check(self) -> None:
        if self._lost:
            raise StoreUnavailable(self._lost)

    def look(self, *, settled: bool | None = None) -> None:
        with self._turn:
            try:
                if not self._answers():
                    self._take()
            except StoreUnavailable as error:
                self._lost = str(error)
                raise
            self._lost = ""

    def release(self) -> None:
        self._let_go()

    def _answers(self) -> bool:
        if self._connection is None:
            return False
        try:
            with translate_errors():
                self._connection.execute(text("SELECT 1"))
        except StoreUnavailable:
            self._let_go()
            return False
        return True

    def _take_to_begin(self) -> bool:
        """Try to take the lock in a new session: alone for a migration that is not compatible. Return whether that
        succeeded."""
        with self._session() as connection:
            self._alone = next((one.file for one in missing_migrations(connection) if not one.compatible), "")
            if self._alone and is_pooled(connection):
                raise UsageError(
                    f"migration {self._alone} must be alone, which a pooler cannot ensure: stop all servers, and run "
                    "`retinue database migrate` with the address of PostgreSQL itself"
                )
            if connection.execute(_LOCK).scalar() if self._alone else _share(connection):
                self._connection = connection
        return self._connection is not None

    def _refused(self) -> str:
        why = f" (migration {self._alone} cannot run beside older servers and workers: stop all of them)"
        return f"another server, of another version, has this database open; {TAKEN}{why if self._alone else ''}"

    def _take(self) -> None:
        """Take the lock again, in a new session."""
        with self._session() as connection:
            if not fits(connection) or not _share(connection):
                raise StoreUnavailable("the database is of another version of Retinue now; restart the server")
            self._connection = connection

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """A new session, which ends with the block unless it was kept."""
        with translate_errors():
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                yield connection
            finally:
                if self._connection is not connection:
                    connection.invalidate()
                    connection.close()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _share(connection: Connection) -> bool:
    """Share the lock. Return whether that succeeded. A pooler would give it to whoever comes next, so there is none."""
    return is_pooled(connection) or bool(connection.execute(_SHARE).scalar())


def _opened(path: Path, given: str) -> int:
    """Return a descriptor of `path`, created if missing."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror}; give another --db") from error


def _lock_both(opened: Sequence[int], kind: int, *, waits: bool = False) -> bool:
    """Lock the file beside the database, and then that itself. Return whether that succeeded."""
    try:
        for one in opened if _LOCKS else opened[:1]:
            fcntl.flock(one, kind if waits else kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _file_system(folder: Path) -> str:
    """Return the type of file system that holds `folder`, empty if unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    here = folder.resolve()
    found = [(len(place), kind) for _, place, kind, *_ in mounts if here.is_relative_to(place)]
    return max(found, default=(0, ""))[1]


def _size_in(header: bytes) -> int:
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return pages * (65_536 if page == 1 else page)


def _counter_in(header: bytes) -> int:
    """Return SQLite's change counter, which grows whenever the first page changes."""
    return int.from_bytes(header[24:28])


def _identity(path: str) -> tuple[int, int]:
    """Return the device and inode that `path` leads to; zeros if it does not exist."""
    try:
        at = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return 0, 0
    return at.st_dev, at.st_ino
