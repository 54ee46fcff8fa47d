"""A real `retinue worker` as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_METRICS = re.compile(r"Metrics are on (http://\S+/metrics)\n")


class Worker(NamedTuple):
    """A worker's process, and the address of its metrics, if it has a port for them."""

    process: subprocess.Popen[str]
    metrics: str


@contextmanager
def working(folder: Path, words: Sequence[str]) -> Iterator[Worker]:
    """`retinue worker` for the agents in `folder`, at work while in the block. What it logs is in the file `log`."""
    command = [sys.executable, "-m", "retinue", "worker", str(folder / "agents.yml"), *words]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    metrics = ""
    try:
        while (line := process.stdout.readline()) != "Retinue is at work\n":
            found = _METRICS.fullmatch(line)
            assert found is not None, line + (folder / "log").read_text()
            metrics = found[1]
        yield Worker(process, metrics)
    finally:
        process.kill()
        process.communicate()
