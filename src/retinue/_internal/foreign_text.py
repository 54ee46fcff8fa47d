"""Text and JSON from strangers. What no later step could use is refused or replaced where it enters.

JSON may have numbers that are not finite, and nesting that no recursive function gets through. It may escape an emoji
as two halves of a surrogate pair, and a stream may send them in two pieces. A lone half cannot be encoded, so it would
break whatever the text is written to.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from math import isfinite
from typing import Any

MAX_DEPTH = 64


class TooDeepError(ValueError):
    """JSON is nested more than `MAX_DEPTH` levels deep."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_DEPTH} levels deep")


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:40]} is not a valid JSON number")


def _read_finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse(text)


def _build_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Duplicate keys are refused, since parsers differ on which value counts."""
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"duplicate key '{twice[:40]}' in an object")
    return value


_make_decoder = partial(json.JSONDecoder, parse_float=_read_finite, parse_constant=_refuse)
STRICT = _make_decoder()
STRICTEST = _make_decoder(object_pairs_hook=_build_unique_object)  # refuses duplicate keys, too
LENIENT = _make_decoder(strict=False)  # accepts line breaks within a text, as models write them


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
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    layer = [value]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in layer if isinstance(one, dict | list)]
        layer = [one for values in inner for one in values if isinstance(one, dict | list)]
    if layer:
        raise TooDeepError


def make_well_formed(text: str) -> str:
    """Return `text` with halves joined, and lone ones replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_json_well_formed(value: Any) -> Any:
    """Return a JSON value with all its texts, keys included, well-formed."""
    written = json.dumps(value, ensure_ascii=False)
    made = make_well_formed(written)
    return value if made is written else json.loads(made)


class TextPieces:
    """Makes the pieces of one text well-formed: half a pair at a piece's end waits for the other half."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what can be passed on now."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return make_well_formed(piece)

    def flush(self) -> str:
        """Return the rest at the end of the text."""
        return make_well_formed(self._half)
