"""Texts for messages: the known name that an unknown one may mean, and an object on one line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

from .redaction import redact

_COMPARED = 300  # names that are compared
_LISTED = 20


def find_nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the known name closest to `name`, ignoring case; empty if none is. `likeness` is from 0 to 1 (difflib)."""
    by_lower = {one.lower(): one for one in islice(known, _COMPARED) if len(one) <= 80}
    close = get_close_matches(name.lower(), by_lower, 1, likeness) if len(name) <= 80 else []
    return by_lower[close[0]] if close else ""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'NEAREST'?`, or `there are: …` if no known name is close."""
    names = list(known)
    if near := find_nearest(name, names):
        return f"did you mean {near!r}?"
    return f"there are: {', '.join(names[:_LISTED])}{', …' * (len(names) > _LISTED)}" if names else "there are none"


_MOST = 80  # characters of a value


def format_repr(something: Any, *given: Any, **named: Any) -> str:
    """Return `Kind(value, name=value)` for `__repr__`, without empty values and secrets."""
    parts = [_shorten_repr(value) for value in given if value not in ("", None)]
    parts += [f"{name}={_shorten_repr(value)}" for name, value in named.items() if value not in ("", None, [], ())]
    return f"{type(something).__name__}({', '.join(parts)})"


def _shorten_repr(value: Any) -> str:
    text = redact(repr(value))
    return text if len(text) <= _MOST else f"{text[: _MOST - 2]} …"
