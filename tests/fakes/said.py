"""A model that says what it is told to, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from retinue import Delta
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks, Retry
from retinue.core.values import Capabilities, Reply


class Said:
    """Says `replies` one after the other; `asked` are the requests.

    `sizes`: it says them in pieces of so many characters, over and over; without, all at once. A `Retry`
    among the replies takes back what was said of the one before it, and the next is said in its place.
    """

    name = "said"

    def __init__(
        self,
        replies: Sequence[str | Reply | Retry],
        abilities: Capabilities = Capabilities(),
        sizes: Sequence[int] = (),
    ) -> None:
        self._replies = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self._abilities = abilities
        self._sizes = tuple(sizes)
        self.asked: list[Ask] = []

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self._abilities

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        while True:
            reply = self._replies.pop(0)
            assert isinstance(reply, Reply)
            at = 0
            for size in cycle(self._sizes) if self._sizes else ():
                if at >= len(reply.text):
                    break
                yield Delta(reply.text[at : at + size])
                at += size
            if not (self._replies and isinstance(retry := self._replies[0], Retry)):
                yield reply
                return
            self._replies.pop(0)
            yield retry
