"""What a run says, told from logs in which replies are cut and begun anew at any place."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from retinue.core.events import Asked, Event, Finished, Replied, Said, Stopped
from retinue.core.values import AgentAction, Reply, StopReason
from retinue.runs.thread_messages import Speech, messages_of
from retinue.store.event_log import Entry
from retinue.store.run_row import RunRow

RUN = RunRow("run_1", "t", "thread_1", 1, "in_progress", True, None, 1, {})
TEXTS = st.text("ab ", max_size=6).map(str.strip)


def said(text: str, sizes: Sequence[int]) -> list[Event]:
    """`text`, as far as it is shown in pieces of these sizes."""
    events: list[Event] = []
    at = 0
    for size in sizes:
        if piece := text[at : at + size]:
            events.append(Said(piece, piece, at))
            at += len(piece)
    return events


PIECES = st.lists(st.integers(1, 3), max_size=4)
ATTEMPTS = st.lists(st.tuples(TEXTS, PIECES), max_size=3)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Replies, each after some that were cut; calls in between; an end of any kind."""
    events: list[Event] = []
    for step in range(draw(st.integers(0, 2))):
        events.append(Asked(step, 0, ()))
        events += [one for attempt in draw(ATTEMPTS) for one in said(*attempt)]
        events.append(Replied(step, Reply(draw(TEXTS), calls=(AgentAction("look", {}),))))
    events.append(Asked(9, 0, ()))
    events += [one for attempt in draw(ATTEMPTS) for one in said(*attempt)]
    answer = draw(TEXTS)
    end: Event = Finished(answer, {}) if draw(st.booleans()) else Stopped(StopReason.CANCELLED, partial=draw(TEXTS))
    return [*events, end]


@given(logs())
def test_what_was_told_is_what_is_stored(events: list[Event]) -> None:
    log = [Entry(at, float(at), event) for at, event in enumerate(events, 1)]
    speech, told, ended = Speech(), dict[int, str](), list[int]()
    for entry in log:
        for one in speech.hear(entry):
            told[one.number] = told.get(one.number, "") + one.more
            assert told[one.number] == one.text != ""
            assert one.number == len(ended)
            ended += [one.number] if one.ended else []
    stored = [row["body"]["content"][0]["text"]["value"] for row in messages_of(RUN, log, "failed")]
    assert [told[number] for number in ended] == list(told.values()) == stored
    last = events[-1]
    if isinstance(last, Finished) and last.answer:
        assert stored[-1] == last.answer


@given(TEXTS, PIECES, PIECES)
def test_a_reply_that_says_the_same_again_is_told_once(text: str, first: list[int], second: list[int]) -> None:
    events = [Asked(1, 0, ()), *said(text, first), *said(text, second), Replied(1, Reply(text)), Finished(text, {})]
    log = [Entry(at, float(at), event) for at, event in enumerate(events, 1)]
    speech = Speech()
    assert "".join(one.more for entry in log for one in speech.hear(entry)) == text
    assert len(list(messages_of(RUN, log, "completed"))) == bool(text)
