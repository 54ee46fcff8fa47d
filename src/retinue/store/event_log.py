"""The event log of a run: only the drive with the latest epoch may append.

While a reply arrives, each piece (`Said`) is a row of its own. With the reply they become one text in its row, from
which a client may still resume at any of them: their numbers, and how much of the reply each had. Of their times,
clients are told the seconds; what is between these is interpolated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, or_, select

from ..core.events import ENDINGS, Called, Event, Observed, Replied, Reported, Said
from ..core.serialization import dump, load
from ..errors import DataError, StoreConflict
from .prepared_statements import Prepared, bound_insert
from .run_queries import find_run, update_run
from .run_row import RunRow, RunValues
from .tables import events, messages, runs
from .usage_sums import count_use

_HOLDER = (runs.c.id == bindparam("run"), runs.c.epoch == bindparam("held"))
_COLUMNS = ("run_id", "seq", "epoch", "at", "kind", "payload", "pieces")
_APPEND = Prepared(
    insert(events).from_select(
        _COLUMNS,  # only the holder: a single statement fences and writes
        select(runs.c.id, *(bindparam(name, type_=events.c[name].type) for name in _COLUMNS[1:]))
        .where(*_HOLDER)
        .with_for_update(key_share=True),  # PostgreSQL: no other holder meanwhile; SQLite has one writer
    )
)
_LATER = (
    select(*(events.c[name] for name in ("seq", "at", "kind", "payload", "version", "pieces")))
    .where(events.c.run_id == bindparam("run"), events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
)
_PAGE = Prepared(_LATER.limit(bindparam("most", type_=Integer())))
_READ = Prepared(_LATER)
_OUTCOME = Prepared(
    _LATER.where(or_(*(events.c.kind == kind.__name__.lower() for kind in (Called, Replied, Observed, *ENDINGS))))
)
_JOINED = Prepared(
    delete(events).where(
        events.c.run_id == bindparam("run"),
        events.c.seq >= bindparam("first"),
        events.c.seq < bindparam("reply"),
        events.c.kind == Said.__name__.lower(),
    )
)
_HELD = Prepared(select(runs.c.id).where(*_HOLDER).with_for_update(key_share=True))
_VERSION = 1  # of the events' format
_AT_ONCE = 500  # ids per statement
_PAGE_SIZE, _ENTRY_SIZE = 100_000, 1_000  # characters after which a page ends: so many, or so many for each entry
_LENGTH = Prepared(select(func.max(events.c.seq)).where(events.c.run_id == bindparam("run")))
_DONE = Prepared(
    select(events.c.seq, events.c.kind)
    .where(
        events.c.run_id == bindparam("run"),  # `not_in` would have as many values as are given: it cannot be prepared
        *(events.c.kind != one.__name__.lower() for one in (Said, Reported)),
    )
    .order_by(events.c.seq.desc())
    .limit(1)
)
_SAID = Prepared(select(messages.c.id).where(messages.c.run_id == bindparam("run")))
_SAY = bound_insert(messages, [one.name for one in messages.c if one.name != "number"])


class Fenced(Exception):
    """Raised when another drive took over the run, or it was ended: nothing more may be written or started."""


class Entry(NamedTuple):
    """An event in a log, with its number (from 1) and the time of its append in Unix seconds."""

    seq: int
    at: float
    event: Event


class Change(NamedTuple):
    """Further writes of an append: values of the run's row, messages of its thread, and `also`, called with the new
    row."""

    values: RunValues
    messages: Sequence[Mapping[str, Any]]
    also: Callable[[Connection, RunRow], None] = lambda connection, run: None


def append_entries(
    connection: Connection,
    holder: RunRow,
    entries: Sequence[Entry],
    change: Callable[[RunRow], Change] | None = None,
    written: int | None = 0,
    log: Sequence[Entry] | None = None,
) -> RunRow | None:
    """Append `entries` to the log of the run acquired as `holder`, and apply `change` to its row. Return the new row,
    or `None` without a change. With `log`, the whole log up to these entries, what it says was used is counted for the
    tenant, unless it was counted. Raises `Fenced` if the epoch of `holder` is no longer the run's latest.

    Entries up to number `written` are there already; `None` says that an earlier attempt may have written some. Those
    that are pieces of a reply which follows go into its row."""
    run_id, epoch = holder.id, holder.epoch
    last = entries[-1].seq if entries else None
    again = written is None
    written = length(connection, run_id) if written is None else written
    rows, joined = _rows(run_id, epoch, entries, written)
    if rows and _APPEND.run_many(connection, rows) != len(rows):
        raise Fenced(run_id)
    for first, reply in joined:
        _JOINED.run(connection, {"run": run_id, "first": first, "reply": reply})
    run = find_run(connection, run_id, holder.request, lock=change is not None) if change or not rows else None
    if not rows and (run is None or run.epoch != epoch):
        raise Fenced(run_id)
    if log is not None:
        count_use(connection, holder, log, last or length(connection, run_id))
    if change is None or run is None:
        return None
    if again and not rows and _has_let_go(holder, run):
        return run
    values, said, also = change(run)
    there = {one for (one,) in _SAID.rows(connection, {"run": run_id})} if said and epoch > 1 else ()
    new = [row for row in said if row["id"] not in there]  # earlier drives wrote the others
    if new:
        _SAY.run_many(connection, new)
    try:
        after = update_run(connection, run, **values)
    except StoreConflict as error:  # it was changed under the same epoch, where rows cannot be locked
        raise Fenced(run_id) from error
    if (run.status, run.driver) != (after.status, after.driver):  # otherwise already written
        also(connection, after)
    return after


def lock_holder(connection: Connection, holder: RunRow) -> bool:
    """Whether the epoch of `holder` is the run's latest. No other drive acquires it until the transaction ends."""
    return bool(_HELD.rows(connection, {"run": holder.id, "held": holder.epoch}))


def _has_let_go(holder: RunRow, run: RunRow) -> bool:
    """Whether a run was changed as its holder wanted, by a write whose answer was lost: it has ended, or rests, or its
    members have it. Others may have changed it since."""
    return run.driver != holder.driver or run.status not in ("in_progress", "cancelling")


def read_events(connection: Connection, run_id: str, after: int = 0) -> list[Entry]:
    """Return the events after number `after`. Raises `DataError` if a row holds no valid event."""
    return [one for row in _READ.rows(connection, {"run": run_id, "after": after}) for one in _entries(after, *row)]


def read_outcome(connection: Connection, run_id: str) -> list[Entry]:
    """Return the events that say how a run ended, what it took and what it did: replies, calls, observations and the
    ends of drives. Raises as `read_events` does."""
    return [_entry(*row[:-1]) for row in _OUTCOME.rows(connection, {"run": run_id, "after": 0})]


def read_page(connection: Connection, run_id: str, after: int, most: int = 100) -> list[Entry]:
    """Return the next entries after number `after`: about `most`, and of limited size, some thousand characters for
    each that was wanted. Raises as `read_events` does."""
    page: list[Entry] = []
    size = 0
    with closing(_PAGE.each(connection, {"run": run_id, "after": after, "most": most})) as rows:
        for row in rows:
            page += _entries(after, *row)
            size += len(row[3])
            if size > max(_PAGE_SIZE, most * _ENTRY_SIZE) or len(page) >= most:
                break
    return page


def read_kinds(connection: Connection, run_ids: Iterable[str], kinds: Sequence[str]) -> Iterator[tuple[str, Event]]:
    """Yield the events of the given kinds from several runs' logs, each with its run's id, in log order. Unreadable
    events are skipped."""
    ids = sorted(run_ids)
    for start in range(0, len(ids), _AT_ONCE):
        wanted = (events.c.run_id.in_(ids[start : start + _AT_ONCE]), events.c.kind.in_(kinds))
        query = select(events.c.run_id, events.c.kind, events.c.payload).where(*wanted)
        for run_id, kind, payload in connection.execute(query.order_by(events.c.run_id, events.c.seq)):
            with suppress(DataError):
                yield run_id, load(kind, payload)


def length(connection: Connection, run_id: str) -> int:
    """Return the number of the log's last event; 0 if the log is empty."""
    return _LENGTH.rows(connection, {"run": run_id})[0][0] or 0


def last_milestone(connection: Connection, run_id: str) -> tuple[int, str]:
    """Return the number and kind of the last event that is not a reply delta; (0, "") if there is none."""
    rows = _DONE.rows(connection, {"run": run_id})
    return rows[0] if rows else (0, "")


def _entry(seq: int, at: float, kind: str, payload: str, version: int) -> Entry:
    if version != _VERSION:
        raise DataError(f"event {seq} has format version {version}, and this Retinue knows version {_VERSION}")
    return Entry(seq, at, load(kind, payload))


def _entries(after: int, seq: int, *row: Any) -> Iterator[Entry]:
    """Yield the entry of a row; before that of a reply those of its pieces whose numbers are greater than `after`."""
    *read, pieces = row
    entry = _entry(seq, *read)
    if pieces is not None and isinstance(entry.event, Replied):
        yield from (one for one in load_pieces(pieces, seq, entry.event) if one.seq > after)
    yield entry


def _rows(
    run_id: str, epoch: int, entries: Sequence[Entry], written: int
) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """Return the rows of the entries that are not `written`, and the numbers of the first piece and of the reply, of
    each reply of which pieces are written."""
    rows: list[dict[str, Any]] = []
    joined: list[tuple[int, int]] = []
    pieces: list[tuple[Entry, Said]] = []
    for entry in entries:
        if isinstance(entry.event, Said):
            pieces.append((entry, entry.event))
            continue
        if entry.seq > written:
            row = _row(run_id, epoch, entry)
            if isinstance(entry.event, Replied) and pieces:
                row["pieces"] = _dump_pieces([one.at for one, _ in pieces], [said for _, said in pieces], entry.event)
                joined += [(pieces[0][0].seq, entry.seq)] if pieces[0][0].seq <= written else []
                pieces.clear()
            rows += [*(_row(run_id, epoch, one) for one, _ in pieces if one.seq > written), row]
        pieces.clear()
    rows += [_row(run_id, epoch, one) for one, _ in pieces if one.seq > written]
    return rows, joined


def _row(run_id: str, epoch: int, entry: Entry) -> dict[str, Any]:
    kind, payload = dump(entry.event)
    held = {"run": run_id, "held": epoch}
    values = {"seq": entry.seq, "epoch": epoch, "at": entry.at, "kind": kind, "payload": payload, "pieces": None}
    return held | values


# ── the pieces of a reply ────────────────────────────────────────────────────────────────────────


def _dump_pieces(times: Sequence[float], said: Sequence[Said], replied: Replied) -> str:
    """Return the text that `load_pieces` reads: of most replies, only the lengths of the pieces, negative for those
    that are no part of the answer, and alone in a list for those of the reasoning."""
    kept = {"at": _dump_times(times)}
    lengths = [
        [len(one.reasoning)] if one.reasoning and not one.text else len(one.text) * (1 if one.answer else -1)
        for one in said
    ]
    short = {**kept, "offset": said[0].offset, "lengths": lengths}
    if list(_cut(short, replied)) != said:  # the reply says it otherwise
        short = {**kept, "said": [[one.text, one.answer, one.offset, one.reasoning] for one in said]}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()


def load_pieces(text: str, seq: int, replied: Replied) -> Iterator[Entry]:
    """Yield the pieces of the reply with number `seq`. Raises `DataError`."""
    try:
        values = json.loads(text)
        whole = values.get("said")
        said = list(_cut(values, replied)) if whole is None else [Said(*one) for one in whole]
        for place, (at, event) in enumerate(zip(_load_times(values["at"]), said, strict=True)):
            yield Entry(seq - len(said) + place, at, event)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"event {seq} has pieces that cannot be read: {error}") from error


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
