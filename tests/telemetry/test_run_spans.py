"""The fold from events to spans: whatever the log, it makes a tree."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource

from core.test_events_kept import TEXT, events
from retinue.core.events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Started,
    Stopped,
)
from retinue.core.run_context import TraceParent
from retinue.core.values import AgentAction, Decision, Message, Observation, Reply, StopReason, Usage
from retinue.telemetry.export import make_readable_span
from retinue.telemetry.span_content import SpanTexts
from retinue.telemetry.spans import RunSpans, SpanRecord, Traced, Value

CALLER = TraceParent(b"t" * 16, b"caller__")
PLACE = Traced("run_1", CALLER, rests=True)
STARTED = Started("Why?", "agent", "react", "m", ())
OF_ALL = "retinue.run.id gen_ai.operation.name gen_ai.provider.name gen_ai.agent.name gen_ai.request.model".split()
IDS = st.sampled_from(["call_1_0", "call_1_1", "call_2_0"])
ACTIONS = st.builds(AgentAction, st.sampled_from(["a", "b"]), st.text(max_size=3), id=IDS)
STEPS = st.integers(1, 3)
ONES = st.one_of(
    st.builds(Asked, STEPS, st.integers(0, 1), st.just((Message("user", "x"),)), closing=st.booleans()),
    st.builds(Replied, STEPS, st.builds(Reply, st.text(max_size=3))),
    st.builds(Called, STEPS, ACTIONS),
    st.builds(Observed, STEPS, st.builds(Observation, IDS, st.just("seen"), st.sampled_from(["result", "failed"]))),
    st.builds(Paused, STEPS, ACTIONS, st.just("may it?")),
    st.builds(Resumed, STEPS, IDS, st.builds(Decision, st.sampled_from(["approve", "reject"]))),
    st.builds(Stopped, st.sampled_from(StopReason)),
    st.just(Finished("Because.", {})),
    st.builds(
        Compacted, STEPS, st.integers(-1, 1), st.sampled_from(["clear", "summary"]), st.just((0,)), st.just(("x",))
    ),
    st.just(STARTED),
    events(TEXT),
)


def folded(log: Sequence[Event], *, place: Traced = PLACE, content: bool = True) -> list[SpanRecord]:
    """The spans of a log whose events are a second apart; what has not ended by then is cut off."""
    found: list[SpanRecord] = []
    spans = RunSpans(place, found.append, "openai", SpanTexts() if content else None)
    for at, event in enumerate(log, 1):
        spans.see(at * 10**9, event)
    spans.leave((len(log) + 1) * 10**9)
    return found


def own(span: SpanRecord) -> dict[str, Value]:
    """The attributes that differ from one span of a run to the next."""
    assert set(OF_ALL) <= span.values.keys()
    return {name: value for name, value in span.values.items() if name not in OF_ALL}


def is_tree(found: Sequence[SpanRecord]) -> bool:
    """Whether each span is there once, and its parent is, too, or is the caller's."""
    ids = [one.span_id for one in found]
    known = {*ids, CALLER.span_id}
    return len(set(ids)) == len(ids) and all(one.parent.span_id in known for one in found)


@given(st.lists(ONES, max_size=25))
def test_any_log_makes_a_tree(log: list[Event]) -> None:
    found = folded(log)
    assert is_tree(found)
    assert sum(one.values["gen_ai.operation.name"] == "invoke_agent" for one in found) == 1
    assert all(0 < one.start <= one.end for one in found)
    encode_spans([make_readable_span(one, Resource({})) for one in found]).SerializeToString()


@given(st.lists(ONES, max_size=25), st.integers(0, 25), st.integers(0, 25))
def test_a_drive_that_goes_on_sends_what_was_not_sent(log: list[Event], cut: int, known: int) -> None:
    """Of a log of which a process ended after `cut` events, and sent the spans of `known` of them."""
    cut, known = min(cut, len(log)), min(known, cut, len(log))
    before: list[SpanRecord] = []
    first = RunSpans(PLACE, before.append, "openai")
    timed = [(at * 10**9, event) for at, event in enumerate(log, 1)]
    for at, event in timed[:known]:
        first.see(at, event)
    after: list[SpanRecord] = []
    second = RunSpans(PLACE, after.append, "openai")
    second.replay(timed[:known], timed[known:cut])
    for at, event in timed[cut:]:
        second.see(at, event)
    second.leave((len(log) + 1) * 10**9)
    assert is_tree({one.span_id: one for one in [*before, *after]}.values())  # type: ignore[arg-type]
    assert all(not one.again or one.end <= cut * 10**9 for one in after)


def test_a_run_of_two_steps() -> None:
    call = AgentAction("search", "x", id="call_1_0")
    log: list[Event] = [
        STARTED,
        Asked(1, 0, (Message("user", "Why?"),)),
        Replied(1, Reply("look", Usage(100, 10, 80, 1, cost=0.5), first_token_seconds=0.25)),
        Called(1, call),
        Observed(1, Observation("call_1_0", "found", usage=Usage(50, 5, 0, 1, runs=1, cost=0.25))),
        Asked(2, 0, (Message("tool", "found"),), closing=True),
        Replied(2, Reply("Because.", Usage(120, 12, 100, 1, cost=0.5), "length")),
        Finished("Because.", {}),
    ]
    first, tool, second, run = folded(log, content=False)
    assert [one.name for one in (first, tool, second, run)] == [
        "chat m",
        "execute_tool search",
        "chat m",
        "invoke_agent agent",
    ]
    assert [(one.start, one.end) for one in (first, tool, second, run)] == [
        (2 * 10**9, 3 * 10**9),
        (4 * 10**9, 5 * 10**9),
        (6 * 10**9, 7 * 10**9),
        (1 * 10**9, 8 * 10**9),
    ]
    assert own(first) == {
        "retinue.step": 1,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 80,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "retinue.cost": 0.5,
    }
    assert second.values["gen_ai.response.finish_reasons"] == ("length",)
    assert second.values["retinue.closing"] is True
    assert own(run) == {
        "retinue.stop_reason": "ANSWER",
        "retinue.steps": 2,
        "gen_ai.usage.input_tokens": 270,
        "gen_ai.usage.output_tokens": 27,
        "gen_ai.usage.cache_read.input_tokens": 180,
        "retinue.cost": 1.25,
        "retinue.strategy": "react",
    }
    assert [one.error for one in (first, tool, second, run)] == [""] * 4


def test_a_call_whose_outcome_was_lost_is_one_span() -> None:
    call = AgentAction("pay", "x", id="call_1_0")
    seen = Observed(1, Observation("call_1_0", "paid"))
    tool, run = folded([STARTED, Called(1, call), Called(1, call), seen, Finished("Done.", {})])
    assert (tool.name, tool.start, tool.end, tool.values["retinue.retries"]) == (
        "execute_tool pay",
        2 * 10**9,
        4 * 10**9,
        1,
    )
    assert run.name == "invoke_agent agent"


def test_what_a_person_refuses_is_a_call_that_failed() -> None:
    call = AgentAction("pay", "x", id="call_1_0")
    refused = Observed(1, Observation("call_1_0", "A person refused this call.", "rejected"))
    log: list[Event] = [STARTED, Paused(1, call, "may it?"), Stopped(StopReason.AWAITING_HUMAN)]
    tool, run = folded([*log, Resumed(1, "call_1_0", Decision("reject")), refused, Finished("No.", {})])
    assert (tool.name, tool.error, tool.start) == ("execute_tool pay", "rejected", tool.end)
    assert [event.name for event in run.events] == ["retinue.paused", "retinue.resumed"]


def test_a_prompt_that_is_too_long_is_a_request_of_its_own() -> None:
    asked = Asked(1, 0, (Message("user", "Why?"),))
    shorter = Asked(1, 1, (Message("user", "Why?"),), shortened=10)
    first, second, _ = folded([STARTED, asked, shorter, Replied(1, Reply("x")), Finished("x", {})])
    assert (first.error, second.error) == ("context_length_exceeded", "")


def test_what_is_under_way_when_a_run_ends_is_cut_off() -> None:
    call = AgentAction("pay", "x", id="call_1_0")
    ends = {
        Stopped(StopReason.CANCELLED): ("cancelled", ""),
        Stopped(StopReason.MAX_EXECUTION_TIME_EXCEEDED): ("max_execution_time_exceeded",) * 2,
        Stopped(StopReason.ERROR, "no", code="rate_limit_exceeded"): ("rate_limit_exceeded",) * 2,
        Stopped(StopReason.ERROR, "no"): ("error",) * 2,
    }
    for end, (inner, outer) in ends.items():
        tool, run = folded([STARTED, Called(1, call), end])
        assert (tool.error, tool.values["retinue.tool.outcome"], run.error) == (inner, "cut_off", outer)
        chat, run = folded([STARTED, Asked(1, 0, ()), end])
        assert (chat.error, run.error) == (inner, outer)
