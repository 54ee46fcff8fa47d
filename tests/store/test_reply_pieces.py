"""A reply's pieces, which go into its row once it is written: whoever knows the number of one finds the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, Engine, func, select

from fakes.kept_runs import new_run
from retinue.core.events import Event, Replied, Retried, Said, Started
from retinue.core.values import Reply
from retinue.store.event_log import Entry, append_entries, read_events, read_page
from retinue.store.run_queries import delete_runs, insert_run
from retinue.store.tables import events

RUN = new_run()
STARTED = Started("q", "a", "react", "m", ())
STREAMED = [Said("I think. "), Said("Final "), Said("Pa", "Pa", 0), Said("ris", "ris", 2), Said(".", ".", 5)]
TEXT = "I think. Final Paris."
LOGS: dict[str, list[Event]] = {
    "as it was said": [STARTED, *STREAMED, Replied(1, Reply(TEXT))],
    "with more after it": [STARTED, *STREAMED, Replied(1, Reply(TEXT + "\nObservation"))],
    "said otherwise": [STARTED, Said("  Paris", "Paris", 0), Said("\ud83d", "?", 5), Replied(1, Reply("Paris"))],
    "tried again": [STARTED, *STREAMED[:3], Retried(1, "cut", 1.0), *STREAMED[3:], Replied(1, Reply(TEXT))],
    "cut": [STARTED, *STREAMED],
    "twice": [STARTED, *STREAMED, Replied(1, Reply(TEXT)), *STREAMED, Replied(1, Reply(TEXT))],
    "with thoughts": [
        STARTED,
        Said("", reasoning="Let me "),
        Said("", reasoning="see. "),
        *STREAMED[:3],
        Said("", "", 2, "So."),
        *STREAMED[3:],
        Replied(1, Reply(TEXT, reasoning="Let me see. So. And no more.")),
    ],
    "thoughts said otherwise": [
        STARTED,
        Said("", reasoning="Well,"),
        *STREAMED,
        Replied(1, Reply(TEXT, reasoning="I")),
    ],
    "long": [*(Said("word ", "word ", 5 * n) for n in range(300)), Replied(1, Reply("word " * 300))],
}


def written(connection: Connection, log: Sequence[Entry], sizes: Sequence[int], *, unsure: bool = False) -> None:
    """Write a log as a drive does, so many entries at a time; what is said is written before its reply."""
    begin = 0
    for size in sizes:
        first = begin
        if any(isinstance(one.event, Replied) for one in log[begin : begin + size]):
            while first and isinstance(log[first - 1].event, Said):
                first -= 1
        append_entries(connection, RUN, log[first : begin + size], written=None if unsure else begin)
        begin += size


@pytest.mark.parametrize("name", LOGS)
def test_every_number_finds_the_rest(any_engine: Engine, name: str) -> None:
    log = [Entry(seq, 1_000.0 + seq / 100, event) for seq, event in enumerate(LOGS[name], 1)]
    for size in (1, 2, 3, len(log)):
        sizes = [size] * (-(-len(log) // size))
        for unsure in (False, True):
            with any_engine.begin() as connection:
                insert_run(connection, RUN)
                written(connection, log, sizes, unsure=unsure)
                for after in range(0, len(log) + 1, 1 + len(log) // 20):
                    found = read_events(connection, RUN.id, after)
                    assert [(one.seq, clean(one.event)) for one in found] == [
                        (one.seq, clean(one.event)) for one in log[after:]
                    ]
                    assert [one.at for one in found] == pytest.approx([one.at for one in log[after:]], abs=0.002)
                    page = read_page(connection, RUN.id, after, 2)
                    assert page == found[: len(page)]
                    assert bool(page) == bool(found)
                delete_runs(connection, [RUN.id])


def clean(event: Event) -> object:
    """An event as a database can hold it."""
    return repr(event).encode("utf-8", "replace").replace(b"\\ud83d", b"?")


def test_a_streamed_reply_takes_little_more_than_one_that_was_not(any_engine: Engine) -> None:
    size = select(
        func.count(), func.sum(func.length(events.c.payload) + func.coalesce(func.length(events.c.pieces), 0))
    )
    log = [Entry(seq, 1_000.0, event) for seq, event in enumerate(LOGS["long"], 1)]
    with any_engine.begin() as connection:
        insert_run(connection, RUN)
        written(connection, log, [1] * len(log))
        rows, streamed = connection.execute(size.where(events.c.run_id == RUN.id)).one()
        delete_runs(connection, [RUN.id])
        insert_run(connection, RUN)
        append_entries(connection, RUN, [log[-1]._replace(seq=1)])
        _, whole = connection.execute(size.where(events.c.run_id == RUN.id)).one()
        delete_runs(connection, [RUN.id])
    assert rows == 1
    assert streamed - whole < 3 * 300
