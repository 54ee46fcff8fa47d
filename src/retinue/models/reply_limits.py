"""A model whose every reply has a limit, ends at further texts, or is sampled in another way, whoever asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.prompt import Ask
from ..core.protocols import Chunks, Model
from ..core.values import Capabilities

_LENGTHS = ("max_completion_tokens", "max_tokens")


def limited(
    model: Model, stop: Sequence[str] = (), max_tokens: int | None = None, options: Mapping[str, Any] | None = None
) -> Model:
    """`model`, whose replies also end before any of `stop`, and after `max_tokens`.

    `options`: sampling settings in OpenAI's names, over the model's own; `stop` and `max_tokens` may be among
    them, and `None` is no setting. Of a model that is limited already, what is said here counts.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    ends = given.pop("stop", ())
    lengths = [given.pop(name) for name in _LENGTHS if name in given]
    stop = (*stop, *([ends] if isinstance(ends, str) else ends))
    max_tokens = next(iter(lengths), max_tokens)
    if not (stop or max_tokens or given):
        return model
    if isinstance(model, Limited):
        return Limited(model.inner, (*model.stop, *stop), max_tokens or model.max_tokens, {**model.options, **given})
    return Limited(model, stop, max_tokens, given)


@dataclass(frozen=True)
class Limited:
    """What `limited` makes."""

    inner: Model
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The inner model's."""
        return self.inner.name

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """The inner model's. Raises `ModelError`."""
        return await self.inner.abilities(native=native)

    def reply(self, request: Ask) -> Chunks:
        """The inner model's reply. Raises `ModelError`."""
        most, left = self.max_tokens or request.max_tokens, request.tokens_left
        changed = replace(
            request,
            stop=tuple(dict.fromkeys((*request.stop, *self.stop))),
            max_tokens=most if left is None else min(left, most or left),
            options={**self.options, **request.options},
        )
        return self.inner.reply(changed)
