"""A response as a fold: the same events under the same numbers, however its log is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from retinue.core.events import (
    Asked,
    Called,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    Said,
    Stopped,
)
from retinue.core.values import AgentAction, Decision, Observation, Reply, StopReason, Usage
from retinue.runs import Followed
from retinue.server.responses.projection import ResponseProjection
from retinue.server.responses.response import Part, request_view
from retinue.store.event_log import Entry
from retinue.store.run_row import RunError, RunRow, Status

RUN = RunRow(
    id="run_0123456789abcdef01234567", tenant="t", thread_id=None, created_at=1, status="queued", holds=True,
    expires_at=None, epoch=1, kind="response", agent="m",
    request={
        "model": "m", "input": [], "messages": [], "rules": [],
        "tools": [{"type": "function", "function": {"name": "theirs"}}],
        "include": ["mcp_call"],
        "asked": request_view({"background": True, "tools": [{"type": "function", "name": "theirs"}]}, "m", None),
    },
)  # fmt: skip


def entries(*events: Event) -> list[Entry]:
    return [Entry(seq, 100.0 + seq, event) for seq, event in enumerate(events, 1)]


def told(log: Sequence[Followed], run: RunRow = RUN) -> list[dict[str, Any]]:
    progress = ResponseProjection(Part(run), {})
    return [event for item in log for event in progress.events(item)]


def said(*texts: str) -> list[Event]:
    """Pieces of a reply."""
    return [Said(text, text, len("".join(texts[:at]))) for at, text in enumerate(texts)]


def asked(step: int = 1) -> Asked:
    return Asked(step, 0, ())


def ended(status: Status = "completed", **values: Any) -> RunRow:
    return RUN._replace(status=status, holds=False, **values)


def texts_of(events: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The messages of a response that is over: their texts and statuses."""
    items = events[-1]["response"]["output"]
    return [(item["content"][0]["text"], item["status"]) for item in items if item["type"] == "message"]


@st.composite
def steps(draw: st.DrawFn, number: int) -> list[Event]:
    """What a step that is no answer leaves: maybe cut once, maybe with words before its calls."""
    words = draw(st.sampled_from(["", "Let me see.", "One moment, please."]))
    log: list[Event] = [asked(number)]
    if draw(st.booleans()):
        shown: list[str] = draw(st.sampled_from([["Let"], ["Let", " me"], ["Other", "wise"]]))
        log += said(*shown)
        log += [Retried(number, "cut", 0.1)] if draw(st.booleans()) else []
    if words:
        log += said(words[:3], words[3:])
    actions = [AgentAction(draw(st.sampled_from(["ours", "theirs"])), {}, id=f"call_{number}_{at}") for at in range(2)]
    log.append(Replied(number, Reply(words, Usage(1, 2), calls=tuple(actions))))
    for action in actions:
        seen = Observed(number, Observation(action.id, "seen", draw(st.sampled_from(["result", "failed"]))))
        asks: list[Event] = [Paused(number, action, "why"), Resumed(number, action.id, Decision("approve"))]
        done: list[Event] = [Called(number, action), seen]
        log += asks[:1] if action.tool == "theirs" else done
        log += asks if draw(st.booleans()) else []
    return log


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Entry], RunRow]:
    """A log, and the row of its run at its end."""
    log: list[Event] = []
    count = draw(st.integers(0, 3))
    for number in range(count):
        log += draw(steps(number))
    log.append(asked(count))
    shown = draw(st.sampled_from([[], ["The ", "answer"], ["The ", "ans"], ["Wrong"]]))
    log += said(*shown)
    end: Any = draw(
        st.sampled_from(
            [
                (Finished("The answer", {}), "completed"),
                (Stopped(StopReason.AWAITING_HUMAN), "requires_action"),
                (Stopped(StopReason.CANCELLED, partial="".join(shown)), "cancelled"),
                (Stopped(StopReason.TOKEN_BUDGET_EXCEEDED, partial="".join(shown)), "incomplete"),
                (Stopped(StopReason.ERROR, "broken"), "failed"),
                (Stopped(StopReason.CANCELLED), "expired"),
            ]
        )
    )
    return entries(*log, end[0]), ended(end[1])


@given(logs(), st.data())
def test_however_a_log_is_read_it_tells_the_same(logged: tuple[list[Entry], RunRow], data: st.DataObject) -> None:
    log, row = logged
    events = told([*log, row])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    read: list[Followed] = []
    for entry in log:  # as it comes: with the run's row wherever a read began
        rows: list[Status] = data.draw(st.lists(st.sampled_from(["queued", "in_progress"]), max_size=2))
        read += [RUN._replace(status=status) for status in rows]
        read.append(entry)
    assert told([*read, row]) == events


@given(logs())
def test_what_a_stream_tells_is_what_the_response_is(logged: tuple[list[Entry], RunRow]) -> None:
    events = told([*logged[0], logged[1]])
    assert [event["type"] for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]
    output = events[-1]["response"]["output"]
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(len(output)))
    assert [(event["item"]["id"], event["item"]["type"]) for event in added] == [
        (item["id"], item["type"]) for item in output
    ]
    assert {item["id"] for item in output} == {event["item"]["id"] for event in added}
    done = {event["output_index"]: event["item"] for event in events if event["type"] == "response.output_item.done"}
    assert [done[at] for at in range(len(output))] == output
    for item in output:
        deltas = [event["delta"] for event in events if event.get("item_id") == item["id"] and "delta" in event]
        if item["type"] == "message":
            assert all(deltas)
            assert "".join(deltas) == item["content"][0]["text"]
        elif item["type"] != "mcp_approval_request":
            assert "".join(deltas) == item["arguments"]


def test_text_that_is_said_again_after_a_kill_is_told_once() -> None:
    cut = [
        asked(),
        *said("The ans"),
        *said("The ", "answer"),
        Replied(1, Reply("The answer")),
        Finished("The answer", {}),
    ]
    events = told([*entries(*cut), ended()])
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ["The ans", "wer"]
    assert texts_of(events) == [("The answer", "completed")]


def test_another_text_after_a_kill_is_another_message() -> None:
    cut = [asked(), *said("The ans"), *said("No ", "idea"), Replied(1, Reply("No idea.")), Finished("No idea.", {})]
    events = told([*entries(*cut), ended()])
    assert texts_of(events) == [("The ans", "incomplete"), ("No idea.", "completed")]


def test_a_reply_that_is_begun_anew_goes_on_where_it_was() -> None:
    again = [asked(), *said("one two"), Retried(1, "cut", 0.1), Said("one two three", " three", 7)]
    events = told([*entries(*again, Finished("one two three", {})), ended()])
    assert texts_of(events) == [("one two three", "completed")]


def test_what_became_of_a_run_that_waited_changes_nothing() -> None:
    log = entries(asked(), Paused(1, AgentAction("ours", {}, id="call_1_0"), "why"), Stopped(StopReason.AWAITING_HUMAN))
    at_once = told([*log, RUN._replace(status="requires_action")])
    late = told([*log, Entry(4, 200.0, Stopped(StopReason.CANCELLED)), ended("expired")])
    assert at_once == late
    assert at_once[-1]["type"] == "response.completed"


def test_a_run_that_failed_without_a_word_is_told_so() -> None:
    events = told([ended("failed", error=RunError("server_error", "unreadable"))])
    assert [event["type"] for event in events][-2:] == ["error", "response.failed"]
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": "unreadable"}


def test_a_search_that_fails_or_is_cut_off_says_so() -> None:
    run = RUN._replace(request={**RUN.request, "tools": [{"type": "file_search", "file_search": {}}]})
    action = AgentAction("file_search", {"query": "x"}, id="call_1_0")
    log: list[Event] = [Replied(1, Reply("", Usage(), calls=(action,))), Called(1, action)]
    failed: list[Event] = [
        *log,
        Observed(1, Observation(action.id, "the index is not there", "failed")),
        Finished("Sorry.", {}),
    ]
    for events, status in ((failed, "failed"), ([*log, Stopped(StopReason.CANCELLED)], "incomplete")):
        end = run._replace(status="completed" if status == "failed" else "cancelled", holds=False)
        tale = told([*entries(*events), end], run)
        done = next(event["item"] for event in tale if event["type"] == "response.output_item.done")
        assert (done["type"], done["status"], done["results"]) == ("file_search_call", status, None)
        assert not any(event["type"] == "response.file_search_call.completed" for event in tale)
