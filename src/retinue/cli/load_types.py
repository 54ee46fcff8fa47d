"""Option types of `retinue capacity`: rates, steps and shares."""

from __future__ import annotations

import math
import re
from typing import Any

import click

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "day": 86_400.0}
_MOST_STEPS = 1_000


class _Rate(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "N/UNIT"

    def __init__(self, seconds: float, example: str) -> None:
        self._seconds = seconds
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number, slash, unit = str(value).partition("/")
        amount = _number(number)
        if amount is None or not 0 < amount < 1e15 or (slash and unit not in _SECONDS):
            self.fail(f"{value!r} is not a rate, such as {self._example} (units: s, min, h, day)", param, ctx)
        return amount * self._seconds / _SECONDS[unit] if slash else amount


class _Steps(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "N|N:SHARE,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[int, float]:
        if isinstance(value, dict):
            return value
        found: dict[int, float] = {}
        for part in str(value).split(","):
            number, colon, share = part.strip().partition(":")
            weight = _number(share) if colon else 1.0
            if not re.fullmatch(r"\d{1,4}", number) or not 0 < int(number) <= _MOST_STEPS or not weight or weight < 0:
                problem = f"{value!r} is not a number of steps, such as 5, or numbers with their shares: 2:70,20:30"
                self.fail(problem, param, ctx)
            found[int(number)] = found.get(int(number), 0.0) + weight
        return found


class _Share(click.ParamType):  # type: ignore[type-arg] # newer versions of click have some
    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        amount = _number(str(value).removesuffix("%"))
        if amount is None or not 0 <= amount <= 100:
            self.fail(f"{value!r} is not a share, such as 5%", param, ctx)
        return amount / 100


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


PER_DAY = _Rate(86_400.0, "1e6/day")
A_MINUTE = _Rate(60.0, "10000/min")
STEPS = _Steps()
SHARE = _Share()
