"""The reason why a connection was lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Disconnect:
    """Records the first reason why a connection became unusable.

    `complaint` is the last line the server wrote to its error output. `unreachable` means that nothing listens at the
    address, perhaps not yet.
    """

    event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    complaint: str = ""
    unreachable: bool = False

    def because(self, reason: str) -> None:
        """Mark the connection as lost."""
        self.reason = self.reason or reason
        self.event.set()

    def __str__(self) -> str:
        return f"{self.reason or 'the connection broke off'}{f' ({self.complaint})' if self.complaint else ''}"
