"""What a forked child starts anew, and modules that run in a process of their own.

A child of `os.fork`, of multiprocessing's "fork" or of a server with preloaded workers inherits the objects, but only
the thread that forked. Waiting for another thread, or for a lock that it held, would never end. Whatever starts a
thread, or holds a lock for long, registers what makes it usable again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from types import MethodType
from weakref import WeakMethod

_resets: dict[int, WeakMethod[MethodType]] = {}  # of objects that live, by the ids of the references


def call_in_forked_child(reset: Callable[[], None]) -> None:
    """Call `reset` in each forked child, before anything else runs there. A method is called while its object lives."""
    if isinstance(reset, MethodType):
        method = WeakMethod(reset, lambda gone: _resets.pop(id(gone), None))
        _resets[id(method)] = method
    elif hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def _reset_objects() -> None:
    for method in tuple(_resets.values()):
        if (reset := method()) is not None:
            reset()


call_in_forked_child(_reset_objects)


def keep_from_parent(inherited: object) -> None:
    """Never collect an object of the parent in this child, not even as it ends: closing it would wait for threads that
    do not run here, or change what the parent uses."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


async def read_output(module: str, arguments: tuple[str, ...], data: bytes, seconds: float) -> bytes:
    """Return what `python -m module` writes after reading `data`, in an environment with nothing in it: data may keep
    native code busy, or crash it. Raises `TimeoutError` after `seconds`; the process is killed then, and also if this
    is cancelled."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, *arguments, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return output
