"""What Retinue costs before it does anything: import time, and what an installation of the core holds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROUNDS = 15
_IMPORTS = ("import retinue", "from retinue import Agent, tool")
ROOT = Path(__file__).parent.parent


def measure() -> str:
    """A table of import times and of the core's distributions and size."""
    with tempfile.TemporaryDirectory() as scratch:
        bare, *imports = _cpu_of(["pass", *_IMPORTS], Path(scratch) / "compiled")
        rows = [("bare interpreter", f"{bare * 1e3:.0f} ms")]
        rows += [(f"`{code}`", f"+{(one - bare) * 1e3:.0f} ms") for code, one in zip(_IMPORTS, imports, strict=True)]
        rows += _installed(Path(scratch) / "installed")
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    return f"CPU of a process that imports, medians of {ROUNDS}, made in turn, with compiled files.\n\n{table}\n"


def _cpu_of(programs: Sequence[str], compiled: Path) -> list[float]:
    """Seconds of CPU of each program."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(ROUNDS + 1):  # the first one compiles
        for code, mine in zip(programs, times, strict=True):
            before = _of_children()
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
            mine.append(_of_children() - before)
    return [median(mine[1:]) for mine in times]


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _installed(scratch: Path) -> list[tuple[str, str]]:
    """Install the core from this checkout into an empty folder, and weigh it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
    subprocess.run([*command, str(scratch), str(ROOT)], check=True, stderr=subprocess.DEVNULL)
    files = [file for file in scratch.rglob("*") if file.is_file()]
    source = sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6
    compiled = sum(file.stat().st_size for file in files) / 1e6
    names = sorted(path.name.split("-")[0] for path in scratch.glob("*.dist-info"))
    return [
        ("distributions of the core", f"{len(names)} ({', '.join(names)})"),
        ("size of the core", f"{source:.1f} MB, {compiled:.1f} MB with compiled files"),
    ]
