"""A run is replayed from its log alone, and what the agent asks, does and answers is compared with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from retinue import Agent, Decision, PromptModel, RunResult, Tool, replay
from retinue.core.budgets import Budget
from retinue.core.events import Asked, Called, Event, Finished, Replied
from retinue.core.serialization import from_json, to_json
from retinue.core.values import StopReason
from retinue.errors import LogMismatch
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import STRATEGIES, simple
from retinue.strategies.parsing.react_text import parse

ROME = {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}}
SCRIPT = [{"when": "it rains", "finish": "It rains."}, ROME]


class World:
    """Tools that count how often they are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def look(self, place: str) -> str:
        self.calls.append(place)
        return f"In {place} it rains."


def agent(world: World, script: Any = SCRIPT, **options: Any) -> Agent:
    look = Tool("look", world.look, "Look at a place", effects=options.pop("effects", "read"))
    given = {"strategy": "react", "trace": False, **options}
    return Agent(PromptModel(script=script), [look, *given.pop("tools", ())], **given)


def ran(**options: Any) -> tuple[RunResult, World]:
    world = World()
    return agent(world, **options).run("How is Rome?"), world


def plain(text: str) -> AgentAction | AgentFinish:
    return parse(text, [Tool("look", lambda place: place)]).decision


def own(read: Callable[[str], AgentAction | AgentFinish], prompt: Any = str) -> Any:
    return simple("own", prompt=prompt, parse=read)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_of_any_strategy_agrees_and_calls_nothing(strategy: str) -> None:
    result, _ = ran(strategy=strategy)
    world = World()
    found = replay(agent(world, [{"when": "", "say": "?"}], strategy=strategy), result)
    assert (found.agrees, found.differs, world.calls) == (True, None, [])
    asked = [(number, event.step) for number, event in enumerate(result.events, 1) if isinstance(event, Asked)]
    assert [(one.event, one.step) for one in found.requests] == asked
    assert len(found.events) == len(result.events)


def test_what_a_log_does_not_hold_of_a_request_is_told() -> None:
    result, world = ran(instructions="Be short.")
    first, _ = replay(agent(world, instructions="Be short."), result).requests
    assert first.pattern is not None
    assert first.pattern.startswith("root ::= ")
    assert "look" in first.pattern
    assert first.schema is not None
    assert (first.stop, first.tools, first.max_tokens) == (("Observation:",), (), None)
    called, _ = ran(strategy="tool_calling")
    assert replay(agent(world, strategy="tool_calling"), called).requests[0].tools == ("look",)
    within = {"strategy": "react", "budget": Budget(tokens=5_000)}
    limited, _ = ran(**within)
    assert replay(agent(world, **within), limited).requests[0].max_tokens == 5_000


def test_json_lines_are_replayed_as_the_log_is() -> None:
    result, world = ran()
    assert replay(agent(world), [from_json(to_json(event)) for event in result.events]).agrees


def shouts(text: str) -> AgentAction | AgentFinish:
    decision = plain(text)
    return replace(decision, tool_input="ROME!") if isinstance(decision, AgentAction) else decision


def goes_elsewhere(text: str) -> AgentAction | AgentFinish:
    decision = plain(text)
    return replace(decision, tool="listen") if isinstance(decision, AgentAction) else decision


def gives_up(text: str) -> AgentAction | AgentFinish:
    return AgentFinish({"output": "I give up."})


def answers_louder(text: str) -> AgentAction | AgentFinish:
    decision = plain(text)
    return AgentFinish({"output": "IT RAINS"}) if isinstance(decision, AgentFinish) else decision


def never_ends(text: str) -> AgentAction | AgentFinish:
    return AgentAction("look", "Rome", text)


def fails(text: str) -> AgentAction | AgentFinish:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("read", "event", "step", "recorded", "now"),
    [
        (shouts, 4, 1, "calls look(Rome)", "calls look(ROME!)"),
        (goes_elsewhere, 4, 1, "calls look(Rome)", "calls listen(Rome)"),
        (gives_up, 4, 1, "calls look(Rome)", "answers: I give up."),
        (answers_louder, 8, 2, "answers: It rains.", "answers: IT RAINS"),
        (never_ends, 8, 2, "answers: It rains.", "calls look(Rome)"),
        (fails, 4, 1, "calls look(Rome)", "stops (ERROR): "),
    ],
)
def test_a_changed_parser_is_told_with_the_event_and_the_step(
    read: Callable[[str], AgentAction | AgentFinish], event: int, step: int, recorded: str, now: str
) -> None:
    result, world = ran(strategy=own(plain))
    differs = replay(agent(world, strategy=own(read)), result).differs
    assert differs is not None
    assert (differs.event, differs.step, differs.recorded) == (event, step, recorded)
    assert differs.now.startswith(now)


def test_a_changed_prompt_is_told_with_what_differs_in_it() -> None:
    result, world = ran(strategy=own(plain))
    changed = own(plain, lambda inputs: f"{inputs} Please.")
    differs = replay(agent(world, strategy=changed), result).differs
    assert differs is not None
    assert (differs.event, differs.step, differs.of_prompts) == (2, 1, True)
    assert "Please." in differs.now
    assert "Please." not in differs.recorded


def test_what_is_told_of_a_difference_is_short_and_shows_it() -> None:
    long = "x" * 100_000
    result, world = ran(strategy=own(plain, lambda inputs: f"{long}a{long}"))
    differs = replay(agent(world, strategy=own(plain, lambda inputs: f"{long}b{long}")), result).differs
    assert differs is not None
    assert len(differs.recorded) < 1_000
    assert (differs.recorded.strip("x… "), differs.now.strip("x… ")) == ("a", "b")
    lines = "\n".join(f"line {at}" for at in range(100))
    result, _ = ran(strategy=own(plain, lambda inputs: lines))
    differs = replay(
        agent(world, strategy=own(plain, lambda inputs: lines.replace("e 3\n", "e three\n"))), result
    ).differs
    assert differs is not None
    assert [line for line in differs.diff() if line[:1] in "+-"] == ["- line 3", "+ line three"]
    assert len(differs.diff()) < 10


def two_at_once(count: int) -> Mapping[str, Any]:
    calls = [AgentAction("look", place) for place in ("Rome", "Oslo", "Bonn")[:count]]

    def flow(task: Any) -> Any:
        from retinue.core.protocols import act

        seen = yield from act(*calls)
        return AgentFinish({"output": " ".join(one.text for one in seen)})

    flow.name = "at once"  # type: ignore[attr-defined]
    return {"strategy": flow}


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (3, 2)])
def test_a_call_more_or_less_is_a_difference(before: int, after: int) -> None:
    result, world = ran(**two_at_once(before))
    assert replay(agent(World(), **two_at_once(before)), result).agrees
    assert not replay(agent(world, **two_at_once(after)), result).agrees


@pytest.mark.parametrize("length", range(1, 8))
def test_a_log_that_was_cut_agrees_as_far_as_it_goes(length: int) -> None:
    result, world = ran()
    found = replay(agent(world), result.events[:length])
    assert (found.agrees, len(found.events)) == (True, length + (length == 7))  # its end follows
    assert not replay(agent(world, strategy=own(plain)), result.events[: max(2, length)]).agrees


@pytest.mark.parametrize("reason", [StopReason.MAX_ITERATION_EXCEEDED, StopReason.TOKEN_BUDGET_EXCEEDED])
def test_a_run_that_a_budget_ended_agrees_under_that_budget_only(reason: StopReason) -> None:
    small = Budget(2) if reason is StopReason.MAX_ITERATION_EXCEEDED else Budget(tokens=150)
    forced = replace(small, early_stopping_method="force")
    for budget in (small, forced):
        result, world = ran(script=[ROME], budget=budget)
        assert result.stop_reason is reason
        assert replay(agent(world, budget=budget), result).agrees
        assert replay(agent(world), result, budget=budget).agrees
    differs = replay(agent(world), result).differs
    assert differs is not None
    assert differs.recorded.startswith(f"stops ({reason})")


def test_a_time_limit_is_the_logs() -> None:
    result, world = ran(budget=Budget(seconds=100))
    slow = [
        replace(event, reply=replace(event.reply, seconds=1_000)) if isinstance(event, Replied) else event
        for event in result.events
    ]
    assert replay(agent(world, budget=Budget(seconds=100)), slow).agrees


def test_a_persons_edit_is_no_decision_of_the_agent() -> None:
    world = World()
    edits = agent(
        world, effects="once", human=lambda action, problem: Decision("edit", "Oslo"), require_human_feedback=True
    )
    result = edits.run("How is Rome?")
    assert [event.action.tool_input for event in result.events if isinstance(event, Called)] == ["Oslo"]
    assert replay(edits, result).agrees
    parked = agent(world, require_human_feedback=True).run("How is Rome?")
    assert parked.stop_reason is StopReason.AWAITING_HUMAN
    assert replay(agent(world, require_human_feedback=True), parked).agrees


def test_a_run_that_was_resumed_is_replayed_as_one() -> None:
    world = World()
    asks = agent(world, require_human_feedback=True)
    parked = asks.run("How is Rome?")
    whole = asks.resume(parked.events, {"call_1_0": Decision("approve")})
    assert whole.stop_reason is StopReason.ANSWER
    assert replay(asks, whole).agrees
    stopped = agent(world, budget=Budget(1)).run("How is Rome?")
    more = agent(world).resume(stopped.events, budget=Budget(5))
    assert isinstance(more.events[-1], Finished)
    assert replay(agent(world), more).agrees


def team(world: World, strategy: Any = "react") -> Agent:
    member = agent(world, name="looks", strategy=strategy)
    script = [{"when": "It rains", "finish": "Wet."}, {"when": "", "call": {"tool": "looks", "input": "What of Rome?"}}]
    return Agent(PromptModel(script=script), [member], name="boss", strategy="react", trace=False)


def test_members_runs_are_replayed_each_by_itself() -> None:
    result = team(World()).run("How is Rome?")
    world = World()
    found = replay(team(world), result)
    assert (found.agrees, list(found.members), world.calls) == (True, ["call_1_0"], [])
    changed = replay(team(world, own(plain)), result)
    assert (changed.differs, changed.agrees, changed.members["call_1_0"].agrees) == (None, False, False)
    with pytest.raises(LogMismatch, match="agent has no member 'looks' any more, which has the call call_1_0"):
        replay(agent(world), replace(result, events=result.events))


def test_what_is_no_log_is_refused() -> None:
    logs: list[Sequence[Event]] = [[], ran()[0].events[1:]]
    for log in logs:
        with pytest.raises(LogMismatch, match="must begin with the event 'started'"):
            replay(agent(World()), log)


def test_it_takes_no_time_that_the_run_took() -> None:
    async def work() -> None:
        from retinue import replay_async

        result, world = await asyncio.to_thread(ran)
        assert (await replay_async(agent(world), result)).agrees

    asyncio.run(work())
