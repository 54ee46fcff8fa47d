"""A cluster on this machine: PostgreSQL, Temporal, a server, and workers."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from urllib.parse import quote

from ..errors import UsageError
from .programs import Guarded, Program, Report, postgres_program, temporal_program

_READY = 60.0  # seconds for a program to get ready
_AGAIN = 1.0  # seconds until a program that ended is started again
_UNPRIVILEGED = "nobody"  # as whom PostgreSQL runs where we are root


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start: a file of agents, `workers` and the server's `port`. `data` is kept. `options` are further ones of
    the server and of each worker."""

    file: Path
    data: Path
    port: int = 8000
    workers: int = 2
    options: Sequence[str] = ()


def commands(plan: Plan, database: str, temporal: str) -> tuple[list[str], list[str]]:
    """Return what follows `retinue` on the command lines of the server and of each worker."""
    shared = ["--db", database, "--temporal", temporal, "--log-format", "text", *plan.options]
    server = ["serve", str(plan.file), "--port", str(plan.port), "--dispatch", "temporal", *shared]
    return server, ["worker", str(plan.file), *shared]


class LocalCluster:
    """Starts what `plan` says; `states` tells what became of each program. Call `close` in any case."""

    def __init__(self, plan: Plan) -> None:
        self.states: dict[str, str] = {}
        self.key = ""
        self.address = ""
        self._plan = plan
        self._socket = Path(tempfile.mkdtemp(prefix="retinue"))  # of few characters: there is a limit of 107
        self.database = f"postgresql://postgres@/postgres?host={quote(str(self._socket), safe='')}"
        self._programs: dict[str, Program] = {}
        self._ended: dict[str, float] = {}
        self._guarded = Guarded()

    def start(self, wanted: Callable[[], bool]) -> None:
        """Start all of it, one after the other, while it is `wanted`. Raises `UsageError` if a program does not get
        ready."""
        self._plan.data.mkdir(parents=True, exist_ok=True)
        self.key = os.environ.get("RETINUE_API_KEYS", "").partition(",")[0] or _key_in(self._plan.data / "key")
        postgres, temporal = postgres_program("postgres"), temporal_program()
        self._start(self._postgres(postgres), lambda: (self._socket / ".s.PGSQL.5432").exists(), wanted)
        port = _free_port()
        self._start(self._temporal(temporal, port), lambda: _listens(port), wanted)
        server, worker = commands(self._plan, self.database, f"127.0.0.1:{port}")
        self._start(self._ours("server", server), self._says("server", "Retinue is ready on "), wanted)
        self.address = self._said("server").rpartition("Retinue is ready on ")[2].split("\n")[0]
        for number in range(1, self._plan.workers + 1):
            name = f"worker {number}"
            self._start(self._ours(name, worker), self._says(name, "Retinue is at work"), wanted)

    def look(self) -> None:
        """Note which programs have ended, and start those again."""
        while (report := self._report()) is not None:
            self._note(report)
        for name, at in list(self._ended.items()):
            if time.monotonic() - at > _AGAIN:
                del self._ended[name]
                self._guarded.start(self._programs[name])

    def close(self) -> None:
        """Stop all of it."""
        self._guarded.close()
        shutil.rmtree(self._socket, ignore_errors=True)

    def _start(self, program: Program, ready: Callable[[], bool], wanted: Callable[[], bool]) -> None:
        if not wanted():
            return
        Path(program.log).unlink(missing_ok=True)
        self._programs[program.name] = program
        self.states[program.name] = "starts"
        self._guarded.start(program)
        until = time.monotonic() + _READY
        while wanted() and not ready():
            if (report := self._report()) is not None:
                self._note(report)
            if self._ended or time.monotonic() > until:
                raise UsageError(f"{program.name} does not get ready: {self._last(program.name)}")
            time.sleep(0.05)

    def _report(self) -> Report | None:
        try:
            return self._guarded.reports.get_nowait()
        except Empty:
            return None

    def _note(self, report: Report) -> None:
        if report.status is None:
            self.states[report.name] = f"runs as process {report.pid}"
        else:
            self.states[report.name] = f"ended ({report.status}), and is started again"
            self._ended[report.name] = time.monotonic()

    def _postgres(self, program: str) -> Program:
        data, user = self._plan.data / "postgres", None
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # as whom PostgreSQL does not run
            user = _UNPRIVILEGED
            data = self._plan.data.resolve() / "postgres"
            for path in (data, Path(program)):
                _check_open(path)
            data.mkdir(exist_ok=True)
            shutil.chown(data, user)
            shutil.chown(self._socket, user)
        if not (data / "PG_VERSION").exists():
            words = [
                postgres_program("initdb"),
                "-D",
                str(data.resolve()),
                "-U",
                "postgres",
                "-E",
                "utf8",
                "-A",
                "trust",
            ]
            done = subprocess.run(words, capture_output=True, text=True, check=False, user=user, cwd="/")
            if done.returncode:
                raise UsageError(f"PostgreSQL cannot be set up in {data}: {done.stderr.strip().splitlines()[-1]}")
        words = [program, "-D", str(data.resolve()), "-k", str(self._socket), "-c", "listen_addresses="]
        return Program("postgres", words, self._log("postgres"), user=user, stop="SIGINT")

    def _temporal(self, program: str, port: int) -> Program:
        words = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
        words += ["--db-filename", str(self._plan.data / "temporal.db"), "--log-level", "error"]
        return Program("temporal", words, self._log("temporal"))

    def _ours(self, name: str, words: list[str]) -> Program:
        env = {"RETINUE_API_KEYS": self.key} if name == "server" else {}
        words = [sys.executable, "-m", "retinue", *words]
        return Program(name, words, self._log(name), env)

    def _log(self, name: str) -> str:
        return str((self._plan.data / f"{name.replace(' ', '-')}.log").resolve())

    def _said(self, name: str) -> str:
        log = Path(self._programs[name].log)
        return log.read_text("utf-8", "replace") if log.exists() else ""

    def _says(self, name: str, words: str) -> Callable[[], bool]:
        return lambda: words in self._said(name)

    def _last(self, name: str) -> str:
        lines = self._said(name).strip().splitlines()
        return f"{lines[-1][:300] if lines else 'it says nothing'} (see {self._programs[name].log})"


def _key_in(file: Path) -> str:
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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
