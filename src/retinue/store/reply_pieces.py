"""The pieces in which a reply was streamed, kept in the row of the reply: a client may resume from any of them.

While a reply arrives, each piece (`Said`) is a row of its own. With the reply they become one text: their numbers, and
how much of the reply each had. Of their times, clients are told the seconds; what is between these is interpolated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
    that are no part of the answer, and alone in a list for those of the reasoning."""
    times = _dump_times([one.at for one in pieces])
    said = [one.event for one in pieces]
    lengths = [[len(one.reasoning)] if _is_thought(one) else len(one.text) * (1 if one.answer else -1) for one in said]
    short = {"at": times, "offset": said[0].offset, "lengths": lengths}
    if list(_cut(short, replied)) != said:  # the reply says it otherwise
        short = {"at": times, "said": [[one.text, one.answer, one.offset, one.reasoning] for one in said]}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()


def load_pieces(text: str, seq: int, replied: Replied) -> Iterator[Piece]:
    """Yield the pieces of the reply with number `seq`. Raises `DataError`."""
    try:
        values = json.loads(text)
        whole = values.get("said")
        said = list(_cut(values, replied)) if whole is None else [Said(*one) for one in whole]
        for place, (at, event) in enumerate(zip(_load_times(values["at"]), said, strict=True)):
            yield Piece(seq - len(said) + place, at, event)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"event {seq} has pieces that cannot be read: {error}") from error


def _is_thought(said: Said) -> bool:
    return bool(said.reasoning) and not said.text


def _dump_times(times: Sequence[float]) -> list[tuple[int, float]]:
    """Return the places of those with which a second begins, of the first and of the last, with their times."""
    last = len(times) - 1
    known = [at for at in range(len(times)) if at in (0, last) or int(times[at]) != int(times[at - 1])]
    return [(at, math.floor(times[at] * 1000) / 1000) for at in known]


def _load_times(known: Sequence[Sequence[Any]]) -> Iterator[float]:
    """Yield the times of all pieces, each within its second."""
    for (place, at), (after, until) in pairwise(known):
        for one in range(place, after):
            yield min(at + (until - at) * (one - place) / (after - place), int(at) + 0.999)
    yield known[-1][1]


def _cut(values: dict[str, Any], replied: Replied) -> Iterator[Said]:
    place, thought, offset = 0, 0, int(values["offset"])
    for length in values["lengths"]:
        if isinstance(length, list):
            yield Said("", "", offset, replied.reply.reasoning[thought : thought + length[0]])
            thought += length[0]
            continue
        text = replied.reply.text[place : place + abs(length)]
        yield Said(text, text if length > 0 else "", offset)
        place += abs(length)
        offset += max(0, length)
