"""Names that are not known: the nearest right one, or all there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MAX_COMPARED = 300  # names, to find the nearest


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known name most like `name`; empty if none is."""
    by_lower = {one.lower(): one for one in islice(known, MAX_COMPARED) if len(one) <= 80}
    close = get_close_matches(name.lower(), by_lower, 1, likeness) if len(name) <= 80 else []
    return by_lower[close[0]] if close else ""


def meant(name: str, known: Iterable[str]) -> str:
    """What to say of `name`, which is not known: which was meant, or what there is."""
    names = list(known)
    if near := nearest(name, names):
        return f"did you mean {near!r}?"
    return f"there are: {', '.join(names[:20])}{', …' * (len(names) > 20)}" if names else "there are none"
