"""Tools that leave a line in a ledger each time they begin, and end only when a file `open` is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

_HERE = Path(__file__).parent


async def look(what: str) -> str:
    """Looks at something."""
    await _done("look", what)
    return f"seen: {what}"


async def watch(what: str) -> str:
    """Watches something, and does not stop when it is told to."""
    while True:
        try:
            await _done("watch", what)
        except asyncio.CancelledError:
            continue
        return f"seen: {what}"


async def pay(what: str) -> str:
    """Pays for something."""
    await _done("pay", what)
    return f"paid: {what}"


async def book(what: str) -> str:
    """Books for somebody."""
    await _done("book", what)
    return f"{what} is booked"


async def _done(tool: str, what: str) -> None:
    with (_HERE / "ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{tool} {what}\n")
    while not (_HERE / "open").exists():  # noqa: ASYNC110 - whoever makes it is another process
        await asyncio.sleep(0.01)
