"""The pieces in which a reply was streamed, kept in the row of the reply: a client may resume from any of them.

While a reply arrives, each piece (`Said`) is a row of its own. With the reply they become one text: their numbers, and
how much of the reply each had. The times of pieces between the first and the last are no longer known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..core.events import Replied, Said
from ..errors import DataError


class Piece(NamedTuple):
    """A piece, with its number in the log and its time in Unix seconds."""

    seq: int
    at: float
    event: Said


def dump_pieces(pieces: Sequence[Piece], replied: Replied) -> str:
    """Return the text that `load_pieces` reads: of most replies, only the lengths of the pieces, negative for those
    that are no part of the answer."""
    ends = [round(pieces[0].at, 3), round(pieces[-1].at, 3)]
    said = [one.event for one in pieces]
    lengths = [len(one.text) if one.answer else -len(one.text) for one in said]
    short = {"at": ends, "offset": said[0].offset, "lengths": lengths}
    if list(_cut(short, replied)) != said:  # the reply says it otherwise
        short = {"at": ends, "said": [[one.text, one.answer, one.offset] for one in said]}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()


def load_pieces(text: str, seq: int, replied: Replied) -> Iterator[Piece]:
    """Yield the pieces of the reply with number `seq`. Raises `DataError`."""
    try:
        values = json.loads(text)
        whole = values.get("said")
        said = list(_cut(values, replied)) if whole is None else [Said(*one) for one in whole]
        first, last = values["at"]
        for place, event in enumerate(said):
            at = first + (last - first) * place / max(1, len(said) - 1)
            yield Piece(seq - len(said) + place, at, event)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"event {seq} has pieces that cannot be read: {error}") from error


def _cut(values: dict[str, Any], replied: Replied) -> Iterator[Said]:
    place, offset = 0, int(values["offset"])
    for length in values["lengths"]:
        text = replied.reply.text[place : place + abs(length)]
        yield Said(text, text if length > 0 else "", offset)
        place += abs(length)
        offset += max(0, length)
