"""Parking, people, and going on from a log: nothing lost, nothing done twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from retinue import (
    Agent,
    DataError,
    Decision,
    LogMismatch,
    PromptModel,
    RunResult,
    StopReason,
    Tool,
    UsageError,
    idempotency_key,
    tool,
)
from retinue.core.events import Called, Event, Finished, Observed, Paused, Resumed, Started, Stopped
from retinue.core.serialization import from_json, to_json
from retinue.core.values import AgentAction


class Ledger:
    """What happened in the world."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.read: list[str] = []

    def pay(self, name: str) -> str:
        """Pay somebody."""
        self.paid.append(name)
        return f"paid {name}"

    def look(self, name: str) -> str:
        """Look somebody up."""
        self.read.append(name)
        return f"{name} is 47"


SCRIPT: list[dict[str, Any]] = [
    {"when": "^Pay", "call": {"tool": "look", "input": "Ada"}},
    {"when": "is 47", "call": {"tool": "pay", "input": "Ada"}},
    {"when": "paid|refused|by hand", "finish": "done"},
]


def agent(ledger: Ledger, *, approval: bool = False, human: Any = None) -> Agent:
    pay = Tool("pay", ledger.pay, effects="once", approval=approval)
    return Agent(PromptModel(script=SCRIPT), [pay, Tool("look", ledger.look, effects="read")], human=human)


def parked(ledger: Ledger) -> RunResult:
    result = agent(ledger, approval=True).run("Pay Ada")
    assert result.stop_reason is StopReason.AWAITING_HUMAN
    assert ledger.paid == []
    return result


def paused(result: RunResult) -> AgentAction:
    return next(event.action for event in result.events if isinstance(event, Paused))


def test_a_tool_that_needs_approval_parks_the_run_and_says_what_waits() -> None:
    result = parked(Ledger())
    assert paused(result).tool_input == "Ada"
    end = result.events[-1]
    assert isinstance(end, Stopped)
    assert (end.reason, end.detail) == (
        StopReason.AWAITING_HUMAN,
        "no person has decided on pay (call_2_0): pay runs only with a person's approval",
    )
    assert result.error == end.detail


@pytest.mark.parametrize(
    ("decision", "paid", "observation"),
    [
        (Decision("approve"), ["Ada"], "paid Ada"),
        (Decision("edit", tool_input="Bob"), ["Bob"], "paid Bob"),
        (Decision("reject", message="too much"), [], "A person refused this call of pay: too much"),
        (Decision("respond", message="I did it by hand"), [], "I did it by hand"),
    ],
    ids=lambda value: value.kind if isinstance(value, Decision) else "",
)
def test_a_persons_decision_is_carried_out(decision: Decision, paid: list[str], observation: str) -> None:
    ledger = Ledger()
    result = parked(ledger)
    result = agent(ledger, approval=True).resume(result.events, {paused(result).id: decision})
    assert (result.answer, result.stop_reason) == ("done", StopReason.ANSWER)
    assert ledger.paid == paid
    assert ledger.read == ["Ada"]
    assert result.steps[-1].observations[0].text == observation


def test_a_person_who_is_there_is_asked_during_the_run() -> None:
    asked: list[str] = []

    async def human(action: AgentAction, problem: str) -> Decision:
        asked.append(f"{action.tool}({action.tool_input}): {problem}")
        return Decision("approve")

    ledger = Ledger()
    result = agent(ledger, approval=True, human=human).run("Pay Ada")
    assert asked == ["pay(Ada): pay runs only with a person's approval"]
    assert (result.answer, ledger.paid) == ("done", ["Ada"])


def test_a_decision_that_is_still_missing_keeps_the_run_parked() -> None:
    ledger = Ledger()
    result = agent(ledger, approval=True).resume(parked(ledger).events)
    assert result.stop_reason is StopReason.AWAITING_HUMAN
    assert sum(isinstance(event, Paused) for event in result.events) == 1


def whole_log() -> tuple[Event, ...]:
    return agent(Ledger()).run("Pay Ada").events


@pytest.mark.parametrize("length", range(1, len(whole_log()) + 1))
def test_a_run_cut_after_any_event_goes_on_and_repeats_no_effect(length: int) -> None:
    log = whole_log()[:length]
    ledger = Ledger()
    result = agent(ledger).resume(log)
    begun = isinstance(log[-1], Called) and log[-1].action.tool == "pay"
    if begun:
        assert result.stop_reason is StopReason.AWAITING_HUMAN
        assert "outcome is unknown" in next(event.problem for event in result.events if isinstance(event, Paused))
        result = agent(ledger).resume(result.events, {"call_2_0": Decision("approve")})
    assert (result.answer, result.stop_reason) == ("done", StopReason.ANSWER)
    recorded = {event.observation.call_id for event in log if isinstance(event, Observed)}
    assert ledger.read == ([] if "call_1_0" in recorded else ["Ada"])
    assert ledger.paid == ([] if "call_2_0" in recorded else ["Ada"])
    ended = [event for event in result.events if not isinstance(event, Stopped | Paused | Resumed)]
    again = [Called] if begun else []  # what was approved is an intent of its own
    assert [type(event) for event in ended] == [type(one) for one in log] + again + [
        type(one) for one in whole_log()[length:]
    ]


def test_a_log_of_another_question_is_refused_at_the_event_that_differs() -> None:
    log = list(whole_log()[:-1])
    started = log[0]
    assert isinstance(started, Started)
    log[0] = Started("Pay Bob", *[getattr(started, name) for name in Started.__slots__[1:]])
    with pytest.raises(LogMismatch, match="its event 1 is Asked"):
        agent(Ledger()).resume(log)


def test_an_empty_log_cannot_be_resumed() -> None:
    with pytest.raises(LogMismatch, match="must begin with"):
        agent(Ledger()).resume([])


def test_a_log_survives_json() -> None:
    log = agent(Ledger(), approval=True, human=lambda action, problem: Decision("edit", "Bob")).run("Pay Ada").events
    lines = [to_json(event) for event in log]
    assert tuple(from_json(line) for line in lines) == log
    assert json.loads(lines[0])["kind"] == "started"


@pytest.mark.parametrize(
    "line", ["", "[]", "{}", '{"kind": "unknown"}', '{"kind": "stopped", "reason": "TIRED"}', '{"kind": ["x"]}', "nul"]
)
def test_a_line_that_is_no_event_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(DataError, match="not an event"):
        from_json(line)


def test_several_calls_of_one_step_run_side_by_side_and_are_sent_back_in_order() -> None:
    from retinue.core.protocols import Act, Flow, Task
    from retinue.core.values import AgentFinish

    order: list[str] = []

    class Two:
        name = "two"

        def __call__(self, task: Task) -> Flow:
            sent = yield Act((AgentAction("meet", "a"), AgentAction("meet", "b"), AgentAction("nothing", "c")))
            assert isinstance(sent, tuple)
            return AgentFinish({"output": " ".join(seen.text[:7] for seen in sent)})

    import asyncio

    barrier: list[asyncio.Event] = []

    @tool(effects="read")
    async def meet(name: str) -> str:
        order.append(name)
        barrier.append(asyncio.Event())
        if len(barrier) == 2:
            for event in barrier:
                event.set()
        await barrier[0].wait()
        return f"{name} came"

    result = Agent(PromptModel(script=["x"]), [meet], strategy=Two()).run("?")
    assert sorted(order) == ["a", "b"]
    assert result.answer == "a came b came nothing"


def test_a_call_has_the_same_key_when_it_is_made_once_more_and_no_other_call_has_it() -> None:
    keys: list[str] = []

    @tool(effects="idempotent")
    def pay(name: str) -> str:
        """Pay somebody."""
        keys.append(idempotency_key())
        return "paid"

    calls = [{"tool": "pay", "input": "Ada"}, {"tool": "pay", "input": "Bob"}]
    someone = Agent(
        PromptModel(script=[{"when": "Pay", "call": calls}, {"finish": "done"}]), [pay], strategy="react_json"
    )
    whole = asyncio.run(someone.start("Pay", key="run_1").finish())
    assert sorted(keys) == ["run_1/call_1_0", "run_1/call_1_1"]
    begun = [event for event in whole.events if not isinstance(event, Observed | Finished)][:5]
    assert isinstance(begun[-1], Called)
    assert someone.resume(begun, key="run_1").answer == "done"
    assert sorted(keys[2:]) == sorted(keys[:2])
    someone.run("Pay")
    someone.run("Pay")
    assert len({key.partition("/")[0] for key in keys}) == 3, "each run without a key has one of its own"
    assert idempotency_key() == ""


def test_a_key_that_no_header_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="want printable ASCII"):
        agent(Ledger()).start("Pay Ada", key="a\nb")
