"""Tools that leave a line in a ledger each time they begin. Some of them end only when a file `open` is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

_HERE = Path(__file__).parent
_EVERY = 0.01  # seconds


async def look(what: str) -> str:
    """Looks at something."""
    await _begun("look", what)
    return f"seen: {what}"


async def note(what: str) -> str:
    """Notes something."""
    return f"noted: {what}"


async def pay(what: str) -> str:
    """Pays for something."""
    await _begun("pay", what)
    return f"paid: {what}"


async def book(what: str) -> str:
    """Books for somebody."""
    await _begun("book", what)
    return f"{what} is booked"


async def _begun(tool: str, what: str) -> None:
    with (_HERE / "ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{tool} {what}\n")
    while not (_HERE / "open").exists():  # noqa: ASYNC110 - whoever makes it is another process
        await asyncio.sleep(_EVERY)
