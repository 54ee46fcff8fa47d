"""A fork begins with the log of a run up to a step, and goes on from there; the other run stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from retinue import Agent, Budget, Decision, PromptModel, RunResult, Tool, fork, replay
from retinue.core.events import Asked, Called, Event, Finished, Observed, Paused, Resumed, Started
from retinue.core.values import StopReason
from retinue.errors import UsageError
from retinue.run.fork import ForkPoint, fork_log
from retinue.strategies import STRATEGIES

SCRIPT = [
    {"when": "paid|enough", "finish": "Done."},
    {"when": "snows", "finish": "Stay in."},
    {"when": "it rains", "call": {"tool": "pay", "input": {"euros": 5}}},
    {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
]


class World:
    """Tools that count."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.paid: list[int] = []

    def look(self, place: str) -> str:
        self.seen.append(place)
        return f"In {place} it rains."

    def pay(self, euros: int) -> str:
        self.paid.append(euros)
        return f"paid {euros}"


def agent(world: World, **options: Any) -> Agent:
    look = Tool("look", world.look, "Look at a place", effects="read")
    pay = Tool("pay", world.pay, "Pay", effects="once", approval=options.pop("approval", False))
    given = {"strategy": "react", "trace": False, "script": SCRIPT, **options}
    return Agent(PromptModel(script=given.pop("script")), [look, pay], **given)


def ended(who: Agent, log: Any, step: int | None = None, **edits: Any) -> RunResult:
    return asyncio.run(fork(who, log, step, **edits).finish())


def asked(result: RunResult) -> list[Asked]:
    return [event for event in result.events if isinstance(event, Asked)]


@pytest.mark.parametrize(("step", "seen", "paid"), [(None, 0, 0), (2, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_what_was_done_until_the_step_is_not_done_again(step: int | None, seen: int, paid: int) -> None:
    world = World()
    result = agent(world).run("How is Rome?")
    before = result.events
    world.seen, world.paid = [], []
    other = ended(agent(world), result, step)
    assert (other.answer, len(world.seen), len(world.paid)) == ("Done.", seen, paid)
    assert result.events == before


@pytest.mark.parametrize(
    "strategy", [name for name in STRATEGIES if name not in ("careful", "planexec", "humanInLoopPlanExec")]
)
def test_an_edited_observation_is_what_the_model_sees_next(strategy: str) -> None:
    world = World()
    result = agent(world, strategy=strategy).run("How is Rome?")
    assert result.answer == "Done."
    other = ended(agent(world, strategy=strategy), result, observations={"call_1_0": "In Rome it snows."})
    assert (other.answer, world.paid) == ("Stay in.", [5])
    assert "In Rome it snows." in str(asked(other)[-1])
    assert "it rains" not in str(other.events)
    assert replay(agent(world, strategy=strategy), other).agrees


def test_the_log_says_what_is_sent_in_other_words() -> None:
    world = World()
    result = agent(world, instructions="Be short.").run("How is Rome?")
    other = ended(agent(world, instructions="Be short."), result, 1, instructions="Be merry.")
    first, *later = asked(other)
    assert "Be short." in str(first)
    assert [one.prompt for one in later] == [1, 1]
    assert later[0].messages[0].content.startswith("Be merry.")
    assert later[0].messages[-1].content.endswith("In Rome it rains.\nThought:")
    assert len(later[1].messages) == 2  # only what is new
    again = ended(agent(world), other, 2, instructions="Be kind.")  # a fork of the fork
    assert [one.prompt for one in asked(again)] == [0, 1, 2]
    assert asked(again)[-1].messages[0].content.startswith("Be kind.")


def test_new_calls_have_keys_of_their_own() -> None:
    result = agent(World()).run("How is Rome?")
    keys = {fork(agent(World()), result, 0).key for _ in range(3)}
    assert len(keys) == 3


def test_a_person_is_asked_again_and_a_decision_does_not_count_twice() -> None:
    world = World()
    parked = agent(world, approval=True).run("How is Rome?")
    paid = agent(world, approval=True).resume(parked.events, {"call_2_0": Decision("approve")})
    assert (paid.answer, world.paid) == ("Done.", [5])
    other = ended(agent(world, approval=True), paid, 1)
    assert (other.stop_reason, world.paid) == (StopReason.AWAITING_HUMAN, [5])
    waiting = ended(agent(world, approval=True), parked)
    assert [one.id for one in waiting.waiting] == ["call_2_0"]


def test_a_call_that_waits_can_be_given_an_outcome() -> None:
    world = World()
    parked = agent(world, approval=True).run("How is Rome?")
    other = ended(agent(world, approval=True), parked, observations={"call_2_0": "That is enough."})
    assert (other.answer, world.paid) == ("Done.", [])


def test_a_call_whose_outcome_is_unknown_waits_for_a_person() -> None:
    world = World()
    log = agent(world).run("How is Rome?").events
    cut = log[
        : next(at for at, event in enumerate(log) if isinstance(event, Called) and event.action.tool == "pay") + 1
    ]
    other = ended(agent(world), cut)
    assert (other.stop_reason, world.paid) == (StopReason.AWAITING_HUMAN, [5])


def test_a_run_that_reached_its_limit_goes_on_with_a_larger_one() -> None:
    world = World()
    result = agent(world, budget=Budget(1)).run("How is Rome?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert ended(agent(world), result).answer == "Done."


def test_members_that_have_ended_do_not_work_again() -> None:
    world = World()
    member = agent(world, name="looks", script=[{"when": "it rains", "finish": "It rains."}, SCRIPT[-1]])
    script = [{"when": "It rains", "finish": "Wet."}, {"when": "snows", "finish": "White."}]
    call = {"when": "", "call": {"tool": "looks", "input": "What of Rome?"}}
    boss = Agent(PromptModel(script=[*script, call]), [member], name="boss", strategy="react", trace=False)
    result = boss.run("How is Rome?")
    other = ended(boss, result, observations={"call_1_0": "It snows."})
    assert (other.answer, world.seen, list(other.children)) == ("White.", ["Rome"], ["call_1_0"])
    assert ended(boss, result, 0).answer == "Wet."
    assert world.seen == ["Rome", "Rome"]
    with pytest.raises(UsageError, match="the run has no call 'call_1_0/call_1_0'; its calls are call_1_0"):
        fork(boss, result, observations={"call_1_0/call_1_0": "x"})


@pytest.mark.parametrize(
    ("step", "observations", "said"),
    [
        (9, {}, "the run has no step 9: its last one is 3"),
        (3, {}, "step 3 is the run's last, which ended it: fork it from step 0 to 2"),
        (None, {"call_9_0": "x"}, "the run has no call 'call_9_0'; its calls are call_1_0, call_2_0"),
        (2, {"call_1_0": "x"}, "the call call_1_0 is of step 1: to edit what it brought, fork the run from that step"),
        (
            None,
            {"call_1_0": "x", "call_2_0": "y"},
            "call_2_0 comes after call_1_0, and what comes after an edited call",
        ),
    ],
)
def test_what_cannot_be_forked_is_named(step: int | None, observations: Mapping[str, str], said: str) -> None:
    result = agent(World()).run("How is Rome?")
    with pytest.raises(UsageError) as raised:
        fork(agent(World()), result, step, observations=observations)
    assert said in str(raised.value)


@pytest.mark.parametrize("log", [(), (Finished("x", {}),)])
def test_a_run_that_has_not_begun_is_not_forked(log: tuple[Event, ...]) -> None:
    with pytest.raises(UsageError, match="has not begun"):
        fork(agent(World()), log)


def whole_log() -> tuple[Event, ...]:
    """Of a run in which a person decided."""
    world = World()
    parked = agent(world, approval=True).run("How is Rome?")
    return agent(world, approval=True).resume(parked.events, {"call_2_0": Decision("approve")}).events


@pytest.mark.parametrize("length", range(1, len(whole_log()) + 1))
def test_a_log_that_was_cut_anywhere_can_be_forked(length: int) -> None:
    """No call whose outcome is recorded is made again, and no call is made without the person's decision."""
    log, world = whole_log()[:length], World()
    other = ended(agent(world, approval=True), log)
    seen = {event.observation.call_id for event in log if isinstance(event, Observed)}
    assert len(world.seen) == ("call_1_0" not in seen)
    assert world.paid == []
    assert other.stop_reason is (StopReason.ANSWER if "call_2_0" in seen else StopReason.AWAITING_HUMAN)


def test_a_forks_log_has_no_open_question() -> None:
    kept = [one.event for one in fork_log(whole_log()[:-4], ForkPoint())]
    assert isinstance(kept[0], Started)
    assert not isinstance(kept[-1], Paused | Resumed)
