"""Named points at which a process can be made to die, so that tests can try each of them."""

from __future__ import annotations

import os
import signal
from collections import Counter

_NAME, _COUNT, _SIGNAL, *_ = [*os.environ.get("RETINUE_CRASHPOINT", "").split(":"), "", "", ""]
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """End the process like `kill -9` does, if `RETINUE_CRASHPOINT=NAME:N` names this passage, the N-th; with
    `NAME:N:TERM` it is told to end."""
    if name != _NAME:
        return
    _passed[name] += 1
    if _passed[name] == int(_COUNT or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{_SIGNAL or 'KILL'}"])
