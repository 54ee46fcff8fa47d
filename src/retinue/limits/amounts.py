"""Limits of quotas as people write and read them: `1000/day`, `5e6/month`, `0.50/day`, `10GB`, `none`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from ..errors import UsageError
from ..store.usage_sums import NANOS
from .quotas import Limit, Period, What

_NUMBER = r"\d{1,19}(?:\.\d{1,9})?(?:e\+?\d{1,2})?"
_COUNT = re.compile(rf"({_NUMBER})/(day|month)", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER}) ?(B|[kMGT]B|[kMGT]iB)?", re.ASCII | re.IGNORECASE)
_POWERS = "bkmgt"
_MOST = 2**62
_WANTED = {
    "runs": "a whole number of runs in each day or month, such as 1000/day",
    "tokens": "a whole number of tokens in each day or month, such as 5e6/month",
    "cost": "an amount of money in each day or month, such as 50/month or 0.25/day",
    "bytes": "a size, such as 10GB, 500MB or 1TiB",
}


def parse_limits(what: What, texts: Sequence[str]) -> list[Limit]:
    """Return the limits that `texts` say. Raises `UsageError` for anything else, and for two limits of one period."""
    limits = [parse_limit(what, text) for text in texts]
    periods = [limit.period for limit in limits]
    if len(limits) > 1 and any(limit.most is None for limit in limits):
        raise UsageError(f"--{what} none excludes other limits of {what}")
    if twice := [one for one in periods if periods.count(one) > 1]:
        raise UsageError(
            f"--{what}: there are two limits for each {twice[0]}" if twice[0] else f"--{what} is given twice"
        )
    return limits


def parse_limit(what: What, text: str) -> Limit:
    """Return the limit that `text` says; `none` is no limit. Raises `UsageError` for anything else."""
    said = text.strip()
    if said.lower() == "none":
        return Limit(what, "" if what == "bytes" else "month", None)
    found = (_SIZE if what == "bytes" else _COUNT).fullmatch(said)
    if found is None:
        raise _unreadable(what, text)
    number, unit = Decimal(found[1]), (found[2] or "B").lower()
    period: Period = ""
    if what == "bytes":
        number *= (1024 if "i" in unit else 1000) ** _POWERS.index(unit[0])
    else:
        period = "day" if unit == "day" else "month"
        number *= NANOS if what == "cost" else 1
    if number != number.to_integral_value() or not 0 <= number < _MOST:
        raise _unreadable(what, text)
    return Limit(what, period, int(number))


def _unreadable(what: What, text: str) -> UsageError:
    return UsageError(f"--{what}: {text[:40]!r} is not {_WANTED[what]}, or none")


def shown_amount(what: What, number: int | None) -> str:
    """Return an amount for people."""
    if number is None:
        return "none"
    if what == "cost":
        places = 2 if number % (NANOS // 100) == 0 else 4 if number >= NANOS // 1000 else 9
        return f"{Decimal(number) / NANOS:,.{places}f}"
    if what != "bytes" or number < 1000:
        return f"{number:,}"
    power = min(4, (len(str(number)) - 1) // 3)
    return f"{Decimal(number) / 1000**power:.3g} {'kMGT'[power - 1]}B".replace("E+3", "000")


def shown_limit(limit: Limit) -> str:
    """Return a limit as it would be set: `--runs 1000/day` shows `1,000/day`."""
    each = f"/{limit.period}" if limit.period and limit.most is not None else ""
    return f"{shown_amount(limit.what, limit.most)}{each}"
