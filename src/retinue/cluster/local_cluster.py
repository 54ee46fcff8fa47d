"""A cluster on this machine: PostgreSQL, a server, workers, and Temporal where it is asked for."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..config.agent_code import Target
from ..errors import UsageError
from .programs import Program, postgres_program, temporal_program

_READY = 60.0  # seconds for a program to get ready
_UNPRIVILEGED = "nobody"  # as whom PostgreSQL runs where we are root


class Plan(NamedTuple):
    """What to start: a file of agents or Python code, `workers`, the server's `port`, and Temporal if it is wanted.
    `data` is kept. `options` are further ones of the server and of each worker."""

    file: Target | Path
    data: Path
    port: int = 8000
    workers: int = 2
    temporal: bool = False
    options: Sequence[str] = ()


def commands(plan: Plan, database: str, temporal: str = "") -> tuple[list[str], list[str]]:
    """Return what follows `retinue` on the command lines of the server and of each worker."""
    shared = ["--db", database, "--log-format", "text", *(["--temporal", temporal] if temporal else []), *plan.options]
    dispatch = ["--dispatch", "temporal"] if temporal else []
    server = ["serve", str(plan.file), "--port", str(plan.port), *dispatch, *shared]
    return server, ["worker", str(plan.file), *shared]


class LocalCluster:
    """Starts what `plan` says, until `stopped` is set. Call `close` in any case."""

    def __init__(self, plan: Plan, stopped: threading.Event) -> None:
        self.programs: list[Program] = []
        self.key = ""
        self.address = ""
        self._plan, self._stopped = plan, stopped
        self._data = plan.data.resolve()
        self._socket = Path(tempfile.mkdtemp(prefix="retinue"))  # of few characters: there is a limit of 107
        self.database = f"postgresql://postgres@/postgres?host={quote(str(self._socket), safe='')}"

    def start(self) -> None:
        """Start all of it, one after the other. Raises `UsageError` if a program does not get ready."""
        self._data.mkdir(parents=True, exist_ok=True)
        self.key = os.environ.get("RETINUE_API_KEYS", "").partition(",")[0] or _read_key(self._data / "key")
        self._start(self._postgres(), (self._socket / ".s.PGSQL.5432").exists)
        temporal = ""
        if self._plan.temporal:
            port = _find_free_port()
            words = [temporal_program(), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
            words += ["--db-filename", str(self._data / "temporal.db"), "--log-level", "error"]
            self._start(self._program("temporal", words), lambda: _listens(port))
            temporal = f"127.0.0.1:{port}"
        served, worked = commands(self._plan, self.database, temporal)
        server = self._program("server", [*_RETINUE, *served], RETINUE_API_KEYS=self.key)
        self._start(server, lambda: "Retinue is ready on " in server.read_log())
        self.address = server.read_log().rpartition("Retinue is ready on ")[2].split("\n")[0]
        for number in range(1, self._plan.workers + 1):
            worker = self._program(f"worker {number}", [*_RETINUE, *worked])
            self._start(worker, lambda worker=worker: "Retinue is at work" in worker.read_log())  # type: ignore[misc]

    def close(self) -> None:
        """Stop all of it, the last one first."""
        for program in reversed(self.programs):
            program.stop()
        shutil.rmtree(self._socket, ignore_errors=True)

    def _start(self, program: Program, ready: Callable[[], bool]) -> None:
        if self._stopped.is_set():
            return
        program.log.unlink(missing_ok=True)
        self.programs.append(program)
        program.start()
        until = time.monotonic() + _READY
        while not ready() and not self._stopped.wait(0.05):
            if not program.look() or time.monotonic() > until:
                lines = program.read_log().strip().splitlines()
                said = lines[-1][:300] if lines else "it says nothing"
                raise UsageError(f"{program.name} does not get ready: {said} (see {program.log})")

    def _program(self, name: str, words: Sequence[str], user: str | None = None, **env: str) -> Program:
        return Program(name, words, self._data / f"{name.replace(' ', '-')}.log", env=env, user=user)

    def _postgres(self) -> Program:
        program, data, user = postgres_program("postgres"), self._data / "postgres", None
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # as whom PostgreSQL does not run
            user = _UNPRIVILEGED
            for path in (data, Path(program)):
                _check_open(path)
            data.mkdir(exist_ok=True)
            shutil.chown(data, user)
            shutil.chown(self._socket, user)
        if not (data / "PG_VERSION").exists():
            words = [postgres_program("initdb"), "-D", str(data), "-U", "postgres", "-E", "utf8", "-A", "trust"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, user=user, cwd="/")
            if done.returncode:
                raise UsageError(f"PostgreSQL cannot be set up in {data}: {done.stderr.strip().splitlines()[-1]}")
        words = [program, "-D", str(data), "-k", str(self._socket), "-c", "listen_addresses="]
        return self._program("postgres", words, user)


_RETINUE = (sys.executable, "-m", "retinue")


def _read_key(file: Path) -> str:
    """Return the key in a file, which is made if there is none."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(f"sk-{secrets.token_urlsafe(24)}\n", "utf-8")
    return file.read_text("utf-8").strip()


def _check_open(path: Path) -> None:
    """Raise `UsageError` if a folder around `path` is closed to the user as whom PostgreSQL runs."""
    for folder in path.parents:
        if not folder.stat().st_mode & 0o001:
            raise UsageError(
                f"PostgreSQL does not run as root, and the user {_UNPRIVILEGED} may not enter {folder}: "
                f"run retinue up as another user, or with an installation and --data outside of {folder}"
            )


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
