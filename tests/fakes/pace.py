"""How fast servers of tests are: they look at what others may have done many times as often as a user's do, for each
test of such a thing would wait for the next look, and do not wait for the disk.

How often is a constant of a module, which is read each time. Time limits stay as they are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

QUICK = {  # seconds
    "retinue.runs.due": {"_EVERY": 0.05},
    "retinue.runs.follow": {"_ALONE": 0.1},
    "retinue.server.background": {"_EVERY": 0.1},
    "retinue.server.indexing.indexer": {"_EVERY": 0.02, "_PAUSE": 0.1},
    "retinue.server.maintenance": {"_EVERY": 0.1},
    "retinue.server.http.authentication": {"_LOOKED_AT": 0.1, "_HELD": 0.05},
    "retinue.store.api_keys": {"_KNOWN_FOR": 0.1},
    "retinue.store.migrations": {"_AGAIN": 0.05},
    "retinue.limits.quotas": {"_FRESH": 0.1},
}
_lock = threading.Lock()
_open = 0  # blocks that are open in this process
_before: dict[tuple[str, str], float] = {}


class _Asyncio:
    """`asyncio`, with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


def forget_the_disk() -> None:
    """Have SQLite wait for no disk, in all databases that are opened from now on. Nobody cuts the machine's power: what
    a process has written is there after it was killed, too."""
    engines: Any = import_module("retinue.store.engines")
    engines._PRAGMAS = tuple(one.replace("synchronous = FULL", "synchronous = OFF") for one in engines._PRAGMAS)


def hurry() -> dict[tuple[str, str], float]:
    """Be quick from now on; what was there before."""
    uvicorn: Any = import_module("uvicorn.server")
    uvicorn.asyncio = _Asyncio()  # ends within tenths of seconds otherwise
    before: dict[tuple[str, str], float] = {}
    for name, constants in QUICK.items():
        module = import_module(name)
        for constant, seconds in constants.items():
            before[name, constant] = getattr(module, constant)
            setattr(module, constant, seconds)
    return before


@contextmanager
def hurried() -> Iterator[None]:
    """Be quick while in the block, or in another one."""
    global _open
    with _lock:
        if not _open:
            _before.update(hurry())
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open:
                for (name, constant), seconds in _before.items():
                    setattr(import_module(name), constant, seconds)
