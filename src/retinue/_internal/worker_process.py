"""Runs a module in a process of its own, with an empty environment: data may keep native code busy, or crash it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE

_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


async def output_of(module: str, arguments: tuple[str, ...], data: bytes, seconds: float) -> bytes:
    """Return what `python -m module` writes after reading `data`. Raises `TimeoutError` after `seconds`; the process
    is killed then, and also if this is cancelled."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, *arguments, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said
