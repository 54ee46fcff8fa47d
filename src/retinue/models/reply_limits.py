"""Wraps a model with limits, stop words or sampling options that apply to all its replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.prices import Price, find_price
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, list_readable_kinds
from ..core.values import Capabilities, Kind

_LENGTHS = ("max_completion_tokens", "max_tokens")


def limit_replies(
    model: Model, stop: Sequence[str] = (), max_tokens: int | None = None, options: Mapping[str, Any] | None = None
) -> Model:
    """Return `model` with replies that also end before any of `stop`, or after `max_tokens`.

    `options` are sampling settings in OpenAI's names and override the model's own; they may include `stop` and
    `max_tokens`, and `None` leaves a setting unchanged. They also override the settings of an earlier `limit_replies`.
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
    """The model that `limit_replies` returns."""

    inner: Model
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def price(self) -> Price | None:
        return find_price(self.inner)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return await self.inner.abilities(native=native)

    async def sees(self) -> frozenset[Kind]:
        return await list_readable_kinds(self.inner)

    def reply(self, request: Ask) -> Chunks:
        most, left = self.max_tokens or request.max_tokens, request.tokens_left
        changed = replace(
            request,
            stop=tuple(dict.fromkeys((*request.stop, *self.stop))),
            max_tokens=most if left is None else min(left, most or left),
            options={**self.options, **request.options},
        )
        return self.inner.reply(changed)
