"""Foreign text made well-formed where it enters: halves of surrogate pairs are joined, or replaced if they are alone.

JSON may escape an emoji as two halves, and a stream may send them in two pieces. A lone half cannot be encoded, so it
would break whatever the text is written to.
"""

from __future__ import annotations

import json
from typing import Any


def well_formed(text: str) -> str:
    """Return `text` with halves joined, and lone ones replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_json(value: Any) -> Any:
    """Return a JSON value with all its texts, keys included, well-formed."""
    written = json.dumps(value, ensure_ascii=False)
    made = well_formed(written)
    return value if made is written else json.loads(made)


class TextPieces:
    """Makes the pieces of one text well-formed: half a pair at a piece's end waits for the other half."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what can be passed on now."""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return well_formed(piece)

    def flush(self) -> str:
        """Return the rest at the end of the text."""
        return well_formed(self._half)
