"""Whether other programs keep a core of this process busy, from Linux's `/proc/stat` (proc(5))."""

from __future__ import annotations

import math
import os
import threading
from os import times
from pathlib import Path
from time import monotonic
from typing import NamedTuple

_STAT = Path("/proc/stat")
_CROWDED, _QUIET = 0.7, 0.3  # cores that others keep busy
_SHORTEST = 0.1  # seconds: the kernel counts hundredths
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_WAITS = (3, 4)  # idle, and waiting for disks
_TIMES = 8  # the fields after these are part of them


def own_cores() -> set[int]:
    """Return the cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


class _Sample(NamedTuple):
    """When it was taken, and the seconds of CPU that other programs have had until then."""

    at: float
    others: float


class CpuLoad:
    """What other programs take of this process's cores."""

    def __init__(self, stat: Path = _STAT) -> None:
        """Begin to measure. `stat` is a file like `/proc/stat`."""
        self._stat = stat
        self._lock = threading.Lock()
        self._last, self._crowded = self._sample(), False

    def is_crowded(self) -> bool:
        """Return whether others have kept a core busy since the last call, and note the time.

        Less than a tenth of a second after the last call, and in between the limits, it returns the same as then. Never
        where the system does not tell.
        """
        with self._lock:
            now = self._sample()
            if (passed := now.at - self._last.at) >= _SHORTEST:
                busy = (now.others - self._last.others) / passed
                self._crowded, self._last = busy > (_QUIET if self._crowded else _CROWDED), now
            return self._crowded

    def _sample(self) -> _Sample:
        own = times()
        try:
            lines = self._stat.read_text("ascii").splitlines()
            cores = {f"cpu{number}" for number in own_cores()}
            ticks = sum(_busy(fields[1:]) for line in lines if (fields := line.split()) and fields[0] in cores)
        except (OSError, ValueError):  # no Linux, or another format: more than nothing is never known
            return _Sample(monotonic(), math.nan)
        return _Sample(monotonic(), ticks / _TICKS - own.user - own.system)


def _busy(spent: list[str]) -> int:
    return sum(int(one) for at, one in enumerate(spent[:_TIMES]) if at not in _WAITS)
