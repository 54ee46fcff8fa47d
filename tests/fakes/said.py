"""A model that says what it is told to, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from retinue.ports import Chunks
from retinue.prompt import Ask
from retinue.schema import Abilities, Reply


class Said:
    """Says `replies` one after the other; `asked` are the requests."""

    name = "said"

    def __init__(self, replies: Sequence[str | Reply], abilities: Abilities = Abilities()) -> None:
        self._replies = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self._abilities = abilities
        self.asked: list[Ask] = []

    async def abilities(self, *, native: bool = False) -> Abilities:
        return self._abilities

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        yield self._replies.pop(0)
