"""What Retinue costs before it does anything: import time, and what an installation of the core holds."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS = 15
ROOT = Path(__file__).parent.parent


def measure() -> str:
    """A table of import times and of the core's distributions and size."""
    bare = _run_time("pass")
    rows = [
        ("bare interpreter", f"{bare * 1e3:.0f} ms"),
        ("`import retinue`", f"+{(_run_time('import retinue') - bare) * 1e3:.0f} ms"),
        ("`from retinue import Agent, tool`", f"+{(_run_time('from retinue import Agent, tool') - bare) * 1e3:.0f} ms"),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        rows += _installed(Path(scratch))
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def _run_time(code: str) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return median(times)


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
