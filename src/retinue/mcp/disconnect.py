"""Why a connection was lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Disconnect:
    """Set, with the reason that was found first, when a connection cannot be used any more.

    `complaint` is the last that the server wrote about itself. `unreachable`: nobody listens there, perhaps not yet.
    """

    event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    complaint: str = ""
    unreachable: bool = False

    def because(self, reason: str) -> None:
        """It is lost."""
        self.reason = self.reason or reason
        self.event.set()

    def __str__(self) -> str:
        return f"{self.reason or 'the connection broke off'}{f' ({self.complaint})' if self.complaint else ''}"
