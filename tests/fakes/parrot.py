"""A model that says its script, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities, Reply, Usage


class Parrot:
    """The model; `constrained`: it passes for one that can be held to a pattern."""

    name = "parrot"

    def __init__(self, script: Sequence[str], *, constrained: bool = False) -> None:
        self.script = list(script)
        self.asked: list[Ask] = []
        self._constrained = constrained

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(constrains=self._constrained)

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        yield Reply(self.script.pop(0), Usage(1, 1, 0, 1))
