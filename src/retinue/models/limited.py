"""A model whose every reply has a limit, or ends at further texts, whoever asks it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ports import Chunks, Model
from ..prompt import Ask
from ..schema import Abilities


def limited(model: Model, stop: tuple[str, ...] = (), max_tokens: int | None = None) -> Model:
    """`model`, whose replies also end before any of `stop`, and after `max_tokens`."""
    return Limited(model, tuple(stop), max_tokens) if stop or max_tokens else model


@dataclass(frozen=True)
class Limited:
    """What `limited` makes."""

    inner: Model
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None

    @property
    def name(self) -> str:
        """The inner model's."""
        return self.inner.name

    async def abilities(self, *, native: bool = False) -> Abilities:
        """The inner model's. Raises `ModelError`."""
        return await self.inner.abilities(native=native)

    def reply(self, request: Ask) -> Chunks:
        """The inner model's reply. Raises `ModelError`."""
        stop = tuple(dict.fromkeys((*request.stop, *self.stop)))
        return self.inner.reply(replace(request, stop=stop, max_tokens=self.max_tokens or request.max_tokens))
