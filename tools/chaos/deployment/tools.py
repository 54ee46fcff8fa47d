"""Tools that ask a service for their effects. Each notes in a file when it began, before anything else."""

from __future__ import annotations

import json
import os
import runpy
import time
from pathlib import Path

import aiohttp

from retinue import idempotency_key

if "CHAOS_FREEZE" in os.environ:
    runpy.run_path(str(Path(__file__).with_name("freezing.py")))
_WORLD = os.environ["CHAOS_WORLD"]


async def look(what: str) -> str:
    """Look at something."""
    return await _effect("look", what, {})


async def note(what: str) -> str:
    """Note something."""
    return await _effect("note", what, {"Idempotency-Key": idempotency_key()})


async def pay(what: str) -> str:
    """Pay for something."""
    return await _effect("pay", what, {})


async def sign(what: str) -> str:
    """Sign something."""
    return await _effect("sign", what, {})


async def crash(what: str) -> str:
    """End the process that runs it."""
    os._exit(9)


async def _effect(tool: str, what: str, headers: dict[str, str]) -> str:
    note = {"tool": tool, "what": what, "began": time.time(), "process": os.getpid()}
    line = json.dumps(note) + "\n"
    with Path(__file__).with_name("began.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{_WORLD}/effects", json={"tool": tool, "what": what}, headers=headers) as response,
    ):
        response.raise_for_status()
    return f"{tool} {what}"
