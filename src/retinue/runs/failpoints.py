"""Failpoints: named places at which tests can make the process die."""

from __future__ import annotations

import os
import signal
from collections import Counter

_NAME, _COUNT, _SIGNAL, *_ = [*os.environ.get("RETINUE_CRASHPOINT", "").split(":"), "", "", ""]
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill the process as `kill -9` does if `RETINUE_CRASHPOINT=NAME:N` names this failpoint and this is its N-th pass.
    `NAME:N:TERM` sends SIGTERM instead."""
    if name != _NAME:
        return
    _passed[name] += 1
    if _passed[name] == int(_COUNT or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{_SIGNAL or 'KILL'}"])
