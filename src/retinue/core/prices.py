"""Prices of models: what the tokens of a request cost, in a currency of the user's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from .._internal.message_text import suggest_name
from ..errors import UsageError
from .values import Usage

_MILLION = 1_000_000
_NAMES = ("input", "output", "cached", "cache_write")


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of a model, for each million of tokens: of `input`, of `output` (reasoning is part of it), of input
    that the engine had `cached`, and of input that it writes to its cache (`None`: as other input). `tiers` are the
    prices of whole requests with more input tokens than a number, in ascending order."""

    input: float
    output: float
    cached: float
    cache_write: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the prices in a mapping; cached input costs as much as other, unless it says otherwise. Raises
        `UsageError`."""
        if unknown := [name for name in given if name not in _NAMES]:
            raise UsageError(f"price: there is no {unknown[0]!r}; {suggest_name(unknown[0], _NAMES)}")
        if missing := [name for name in _NAMES[:2] if name not in given]:
            raise UsageError(f"price: {missing[0]!r} is missing; want {{input: …, output: …}} per million tokens")
        for name, value in given.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                raise UsageError(f"price: {name} is {value!r:.80}; want 0 or more per million tokens")
        return cls(given["input"], given["output"], given.get("cached", given["input"]), given.get("cache_write"))

    def priced(self, usage: Usage) -> Usage:
        """Return `usage`, that of one request, with its cost."""
        price = next((tier for above, tier in reversed(self.tiers) if usage.input_tokens > above), self)
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        cost = (usage.input_tokens - cached - written) * price.input + cached * price.cached
        cost += written * (price.input if price.cache_write is None else price.cache_write)
        return replace(usage, cost=(cost + usage.output_tokens * price.output) / _MILLION)


FREE = Price(0, 0, 0)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of models by their names: `NAME` or `ENGINE:NAME`, which may end in `*`. Of several that fit, what is
    exact counts before patterns, and of these the longest. `currency` is empty if it is not said."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    currency: str = ""

    def of(self, engine: str, model: str) -> Price | None:
        """Return the prices of a model at an engine, if they are listed."""
        if not self.prices:
            return None
        names = (f"{engine}:{model}", model)
        for name in names:
            if name in self.prices:
                return self.prices[name]
        patterns = [one for one in self.prices if one.endswith("*")]
        fitting = [one for one in patterns if any(name.startswith(one[:-1]) for name in names)]
        return self.prices[max(fitting, key=len)] if fitting else None


_listed = [PriceList()]


def use_price_list(prices: PriceList) -> None:
    """Have the models of this process that say nothing else cost what is listed."""
    _listed[0] = prices


def find_listed_price(engine: str, model: str) -> Price | None:
    """Return the prices of a model at an engine in that list, if they are there."""
    return _listed[0].of(engine, model)


def is_counted_in_dollars() -> bool:
    """Return whether prices in US dollars can be added to those of that list: it has no other currency."""
    return _listed[0].currency.upper() in ("", "USD")


def find_price(model: object) -> Price | None:
    """Return the prices of a model, if they are known."""
    found = getattr(model, "price", None)
    return found if isinstance(found, Price) else None
