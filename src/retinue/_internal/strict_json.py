"""JSON from strangers, with what its text may say and no later step can use refused: numbers that are not finite, and
nesting that no recursive function gets through."""

from __future__ import annotations

import json
from collections import Counter
from math import isfinite
from typing import Any

MAX_DEPTH = 64


class TooDeepError(ValueError):
    """JSON is nested more than `MAX_DEPTH` levels deep."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse(text)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:40]} is not a valid JSON number")


STRICT = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Duplicate keys are refused, since parsers differ on which value counts."""
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"duplicate key '{twice[:40]}' in an object")
    return value


STRICTEST = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_once)
"""Refuses duplicate keys, too."""


LENIENT = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_refuse)
"""Accepts line breaks within a text, as models write them."""


def read_strict_json(text: str, decoder: json.JSONDecoder = STRICT) -> Any:
    """Return the value in `text`. Raises `ValueError`, and `TooDeepError`."""
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise TooDeepError from None
    check_depth(value, text)
    return value


def check_depth(value: Any, text: str) -> None:
    """Raise `TooDeepError` if the value in `text` is nested too deep."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
        raise TooDeepError


def _deeper(value: Any, levels: int) -> bool:
    """Whether `value` is nested more than `levels` deep."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for one in layer
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True
