"""One server for each database: two would drive the same runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text

from ..errors import UsageError
from .telling import telling

_OURS = 7_373_061_893  # a number that nobody else will lock in PostgreSQL
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")


class Lock(Protocol):
    """Held until it is released, or the process ends."""

    def release(self) -> None:
        """Let others have it."""
        ...


def locked(engine: Engine) -> Lock:
    """The lock on a database. Raises `UsageError` if another server holds it, or its file is on another machine."""
    return _Session(engine) if engine.dialect.name == "postgresql" else _File(Path(str(engine.url.database)))


class _File:
    """A lock on a file beside the database: on the file itself SQLite's own would go with it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (kind := _file_system(path.parent)).startswith(_REMOTE):
            raise UsageError(f"{path} is on a network file system ({kind}), where SQLite loses data; use a local disk")
        self._file = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise UsageError(f"another server has {path} open; stop it, or give this one another --db") from error

    def release(self) -> None:
        os.close(self._file)


class _Session:
    """A lock of PostgreSQL's, which goes with its connection."""

    def __init__(self, engine: Engine) -> None:
        with telling():
            self._connection: Connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not self._connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _OURS}).scalar():
                self._connection.close()
                raise UsageError("another server has this database open; stop it, or give this one another --db")

    def release(self) -> None:
        self._connection.invalidate()
        self._connection.close()


def _file_system(folder: Path) -> str:
    """The kind of file system that `folder` is on, where the system tells."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    here = folder.resolve()
    found = [(len(place), kind) for _, place, kind, *_ in mounts if here.is_relative_to(place)]
    return max(found, default=(0, ""))[1]
