"""Failpoints: named places at which tests can make the process die."""

from __future__ import annotations

import os
import signal
from collections import Counter

_passed: Counter[str] = Counter()
_crash: list[str] = []  # the name, the pass, and the signal


def await_crash(where: str) -> None:
    """Have this process die at `NAME:N`, the N-th pass of a failpoint, as `kill -9` does; or `NAME:N:TERM`."""
    _crash[:] = [*where.split(":"), "", ""]


def failpoint(name: str) -> None:
    """Kill the process if this is where it is to die: `RETINUE_CRASHPOINT` says so, or `await_crash`."""
    if name != _crash[0]:
        return
    _passed[name] += 1
    if _passed[name] == int(_crash[1] or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{_crash[2] or 'KILL'}"])


await_crash(os.environ.get("RETINUE_CRASHPOINT", ""))
