"""A `once` call of which nobody knows whether it took effect is not made again unless a person says so."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from random import Random
from typing import Any

import pytest

from retinue import (
    Agent,
    Budget,
    Decision,
    NotDone,
    PromptModel,
    RunResult,
    StopReason,
    Tool,
    ToolError,
    UsageError,
    idempotency_key,
    tool,
)
from retinue.agent import Run
from retinue.core.events import Called, Event, Finished, Observed, Paused, Resumed, Stopped
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks, Flow, Recalled, Task, act
from retinue.core.tools.toolbox import DOUBT
from retinue.core.values import Capabilities, Outcome, Reply, ToolInput
from retinue.extend import AgentAction, AgentFinish, Observation
from retinue.run.run import Earlier
from retinue.strategies import STRATEGIES

PAY = {"call": {"tool": "pay", "input": {"amount": 5}}}
AGAIN = [{"when": "took effect", "call": PAY["call"]}, {"when": "told|refused|paid", "finish": "done"}, PAY]


def told(result: RunResult) -> list[Observation]:
    return [event.observation for event in result.events if isinstance(event, Observed)]


def paused(result: RunResult) -> list[Paused]:
    return [event for event in result.events if isinstance(event, Paused)]


def paying(error: BaseException | None, paid: list[int], **options: Any) -> Tool:
    async def pay(amount: int) -> str:
        paid.append(amount)
        if error is None and len(paid) == 1:
            await asyncio.Event().wait()
        if error is not None and len(paid) == 1:
            raise error
        return f"paid {amount}"

    given: dict[str, Any] = {"effects": "once", "timeout": 0.01, **options}
    return Tool("pay", pay, **given)


UNKNOWN: list[BaseException | None] = [
    None,  # it does not end in its time
    ConnectionError("reset"),
    ToolError("the bank is away"),
    TimeoutError("theirs"),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    BaseExceptionGroup("several", [SystemExit(1)]),
]


@pytest.mark.matrix
@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whatever_it_ended_with_a_person_is_asked_before_it_is_made_again(
    error: BaseException | None, strategy: str
) -> None:
    paid: list[int] = []
    asked: list[str] = []

    def human(action: AgentAction, problem: str) -> Decision:
        asked.append(problem)
        return Decision("respond", message="told by a person") if action.tool == "pay" else Decision("approve")

    agent = Agent(PromptModel(script=AGAIN), [paying(error, paid)], strategy=strategy, human=human)
    result = agent.run("Pay 5")
    assert (result.answer, paid) == ("done", [5])
    (problem,) = [problem for problem in asked if "pay" in problem]
    assert problem.startswith(
        "pay was begun before and its outcome is unknown: did it happen? It may still be under way"
    )
    assert (error is None) == ("It ended with: pay did not finish in time" in problem)
    first, second = told(result)
    assert (first.outcome, second.outcome, second.text) == ("unknown", "result", "told by a person")
    assert "Whether this call of pay took effect is not known" in result.transcript


def test_without_a_person_the_run_parks_and_goes_on_with_one() -> None:
    paid: list[int] = []
    agent = Agent(PromptModel(script=AGAIN), [paying(ConnectionError("reset"), paid)])
    result = agent.run("Pay 5")
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])
    (pause,) = paused(result)
    result = agent.resume(result.events, {pause.action.id: Decision("approve")})
    assert (result.answer, paid) == ("done", [5, 5])


def test_a_refusal_is_no_leave_to_make_it_again() -> None:
    paid: list[int] = []
    script = [
        {"when": "took effect|refused", "call": PAY["call"], "times": 2},
        {"when": "refused", "finish": "done"},
        PAY,
    ]
    answers = iter([Decision("reject"), Decision("reject")])
    agent = Agent(
        PromptModel(script=script), [paying(OSError("reset"), paid)], human=lambda action, problem: next(answers)
    )
    result = agent.run("Pay 5")
    assert (result.answer, paid) == ("done", [5])
    assert len(paused(result)) == 2


@pytest.mark.parametrize(
    ("error", "not_done"),
    [
        (NotDone("no such account"), ()),
        (ValueError("too much"), (ValueError,)),
        (UnicodeError("a kind of it"), (ValueError,)),
        (ValueError("too much"), "KeyError, ValueError"),
        (ToolError("no such account"), "ToolError"),
        (SystemExit(3), (SystemExit,)),
    ],
)
def test_what_says_that_nothing_happened_lets_it_be_made_again(error: BaseException, not_done: Any) -> None:
    paid: list[int] = []
    script = [{"when": "failed", **PAY}, {"when": "paid", "finish": "done"}, PAY]
    result = Agent(PromptModel(script=script), [paying(error, paid, not_done=not_done)]).run("Pay 5")
    assert (result.answer, paid) == ("done", [5, 5])
    assert [one.outcome for one in told(result)] == ["failed", "result"]


@pytest.mark.parametrize("effects", ["read", "idempotent"])
@pytest.mark.parametrize("error", UNKNOWN[:3], ids=repr)
def test_what_may_be_repeated_is(effects: str, error: BaseException | None) -> None:
    paid: list[int] = []
    script = [{"when": "failed|in time", **PAY}, {"when": "paid", "finish": "done"}, PAY]
    result = Agent(PromptModel(script=script), [paying(error, paid, effects=effects)]).run("Pay 5")
    assert (result.answer, paid) == ("done", [5, 5])


def test_what_may_be_repeated_is_under_the_key_of_the_first() -> None:
    keys: list[str] = []

    @tool(effects="idempotent")
    def pay(amount: int) -> str:
        keys.append(idempotency_key())
        if len(keys) < 3:
            raise ConnectionError("reset")
        return f"paid {amount}"

    script = [{"when": "failed", **PAY}, {"when": "paid", "finish": "done"}, PAY]
    agent = Agent(PromptModel(script=script), [pay])
    result = asyncio.run(agent.start("Pay 5", key="run").finish())
    assert keys == ["run/call_1_0"] * 3
    cut = [at for at, event in enumerate(result.events) if isinstance(event, Called)][-1]
    keys[:] = ["", ""]
    again = Agent(PromptModel(script=[{"finish": "done"}]), [pay]).resume(result.events[: cut + 1], key="run")
    assert (again.answer, keys[2:]) == ("done", ["run/call_1_0"])


WRITTEN: list[ToolInput] = [
    {"amount": 5},
    {"amount": "5"},
    {"amount": 5.0},
    '{"amount": 5}',
    {"amount": 5, "note": ""},
    {"note": "", "amount": 5},
]


class Planned:
    """A strategy that makes these calls, a step after the other."""

    name = "planned"

    def __init__(self, *steps: Sequence[ToolInput]) -> None:
        self.steps = steps

    def __call__(self, task: Task) -> Flow:
        for step in self.steps:
            yield from act(*(AgentAction("pay", given) for given in step))
        return AgentFinish({"output": "done"})


@pytest.mark.parametrize("written", WRITTEN, ids=str)
@pytest.mark.parametrize("outcome", ["unknown", "result"])
def test_a_call_is_the_same_however_it_is_written(written: ToolInput, outcome: Outcome) -> None:
    paid: list[int] = []

    @tool(effects="once")
    def pay(amount: int, note: str = "") -> str:
        paid.append(amount)
        if outcome == "unknown":
            raise ConnectionError("reset")
        return "paid"

    run = Agent(PromptModel(script=["x"]), [pay], strategy=Planned([{"amount": 5}], [written])).run("Pay")
    assert paid == [5]
    assert run.stop_reason is (StopReason.AWAITING_HUMAN if outcome == "unknown" else StopReason.ANSWER)


def test_equal_calls_of_one_step_begin_once() -> None:
    paid: list[int] = []
    agent = Agent(PromptModel(script=["x"]), [paying(OSError("reset"), paid)], strategy=Planned([{"amount": 5}] * 20))
    result = agent.run("Pay")
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])
    seen = told(result)
    assert [one.outcome for one in seen] == ["unknown"] * 16  # those that are made at a time; a person is asked about 4
    assert len(paused(result)) == 4
    approved = {pause.action.id: Decision("approve") for pause in paused(result)}
    assert agent.resume(result.events, approved).answer == "done"
    assert paid == [5, 5]


def test_approvals_given_together_do_not_count_for_what_one_of_them_began() -> None:
    """Twenty equal calls, all approved at once: the second sixteenth waits for a new word."""
    paid: list[int] = []

    async def pay(amount: int) -> str:
        paid.append(amount)
        raise ConnectionError("reset")

    agent = Agent(PromptModel(script=["x"]), [Tool("pay", pay, approval=True)], strategy=Planned([{"amount": 5}] * 20))
    result = agent.run("Pay")
    assert paid == []
    result = agent.resume(result.events, {pause.action.id: Decision("approve") for pause in paused(result)})
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])


def test_a_call_that_was_cut_off_counts_for_its_equals_that_were_not_begun() -> None:
    paid: list[int] = []
    agent = Agent(PromptModel(script=["x"]), [paying(OSError("reset"), paid)], strategy=Planned([{"amount": 5}] * 2))
    whole = agent.run("Pay").events
    cut = next(at for at, event in enumerate(whole) if isinstance(event, Called))
    paid[:] = [5]  # it had happened
    result = agent.resume(whole[: cut + 1])
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])
    first, second = paused(result)
    decisions = {first.action.id: Decision("respond", message="it happened"), second.action.id: Decision("reject")}
    result = agent.resume(result.events, decisions)
    assert (result.answer, paid) == ("done", [5])


def test_a_word_on_one_call_does_not_count_once_its_equal_began_after_it() -> None:
    paid: list[int] = []
    agent = Agent(PromptModel(script=["x"]), [paying(OSError("reset"), paid)], strategy=Planned([{"amount": 5}] * 2))

    def until(log: Sequence[Event], kind: type, **decisions: Decision) -> Sequence[Event]:
        whole = agent.resume(log, decisions).events
        return whole[: next(at for at in range(len(log), len(whole)) if isinstance(whole[at], kind)) + 1]

    log = until(agent.run("Pay").events[:1], Called)
    log = agent.resume(log).events  # two that wait for a person
    log = until(log, Resumed, call_0_1=Decision("approve"))
    log = until(log, Called, call_0_0=Decision("approve"))
    paid[:] = [5]
    result = agent.resume(log)
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])


def test_a_refusal_does_not_settle_a_call_that_was_cut_off() -> None:
    paid: list[int] = []
    calls = Planned([{"amount": 5}], [{"amount": 5}])
    agent = Agent(PromptModel(script=["x"]), [paying(OSError("reset"), paid)], strategy=calls)
    whole = agent.run("Pay").events
    cut = next(at for at, event in enumerate(whole) if isinstance(event, Called))
    paid[:] = [5]  # it had happened
    result = agent.resume(whole[: cut + 1])
    for _ in range(2):
        waiting = [pause.action.id for pause in paused(result)][-1]
        assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])
        result = agent.resume(result.events, {waiting: Decision("reject")})
    assert (result.answer, paid, len(paused(result))) == ("done", [5], 2)


def test_a_second_turn_of_the_same_step_is_replayed_as_its_own() -> None:
    paid: list[int] = []
    strategy = Planned([{"amount": 1}], [{"amount": 2}], [{"amount": 3}])
    agent = Agent(PromptModel(script=["x"]), [paying(None, [0])], strategy=strategy)
    whole = agent.run("Pay").events
    for length in range(1, len(whole)):
        again = Agent(PromptModel(script=["x"]), [paying(None, paid := [0])], strategy=strategy)
        result = again.resume(whole[:length], {})
        made = [event.action.tool_input for event in whole[:length] if isinstance(event, Called)]
        assert paid[1:] == [one for one in (1, 2, 3) if {"amount": one} not in made][: 0 if _cut(whole[:length]) else 3]
        assert (result.answer == "done") is not _cut(whole[:length])


def _cut(log: Sequence[Event]) -> bool:
    return isinstance(log[-1], Called)


@pytest.mark.parametrize("limit", ["cancelled", "seconds"])
def test_a_run_that_was_ended_during_a_call_does_not_know_what_came_of_it(limit: str) -> None:
    paid: list[int] = []
    runs: list[Run] = []

    async def pay(amount: int) -> str:
        paid.append(amount)
        if limit == "cancelled":
            runs[0].cancel()
        await asyncio.Event().wait()
        return ""

    budget = Budget(seconds=0.05) if limit == "seconds" else Budget()
    agent = Agent(PromptModel(script=[PAY]), [Tool("pay", pay)], budget=budget)
    runs.append(agent.start("Pay 5"))
    first = asyncio.run(runs[0].finish())
    ended = StopReason.CANCELLED if limit == "cancelled" else StopReason.MAX_EXECUTION_TIME_EXCEEDED
    assert (first.stop_reason, paid) == (ended, [5])
    result = agent.resume(first.events, budget=Budget(seconds=60))
    assert (result.stop_reason, paid) == (StopReason.AWAITING_HUMAN, [5])
    assert [pause.problem for pause in paused(result)] == [DOUBT.format("pay")]
    assert DOUBT.format("pay") in result.error


def test_no_limit_makes_a_log_forget_a_call() -> None:
    """A strategy that acts after the closing question: the call is not forgotten with it."""
    paid: list[int] = []

    class Acts:
        name = "acts"

        def __call__(self, task: Task) -> Flow:
            from retinue.core.prompt import Prompt
            from retinue.core.protocols import ask
            from retinue.core.values import Message

            first = Ask(Prompt(Message("user", "?")), "?", lambda decided: Reply("x"))
            closing = Ask(Prompt(Message("user", "!")), "!", lambda decided: Reply("x"))
            request = Ask(first.prompt, "?", first.write, closing=lambda: closing)
            yield from ask(request)
            yield from act(AgentAction("pay", {"amount": 5}))
            yield from ask(request)
            return AgentFinish({"output": "done"})

    agent = Agent(PromptModel(script=["x"] * 9), [paying(OSError("reset"), paid)], strategy=Acts(), budget=Budget(1))
    result = agent.run("Pay")
    assert (result.stop_reason, paid) == (StopReason.MAX_ITERATION_EXCEEDED, [5])
    result = agent.resume(result.events, budget=Budget(9))
    assert (result.answer, paid) == ("done", [5])


# ── reflection ───────────────────────────────────────────────────────────────────────────────────

MORE = ' rephrase: {"amount": 6}'
FIRST = ' x\nAction: pay\nAction Input: {"amount": 5}\n'
FINAL = " x\nFinal Answer: done"


@pytest.mark.parametrize("error", [*UNKNOWN, "result"], ids=repr)
def test_a_call_that_may_have_happened_is_not_made_again_in_other_words(error: Any) -> None:
    paid: list[int] = [0] if error == "result" else []
    made = paying(None if error == "result" else error, paid, reflections=3)
    result = Agent(PromptModel(script=[FIRST, FINAL]), [made]).run("Pay")
    assert (result.answer, [one for one in paid if one]) == ("done", [5])


def test_a_call_that_did_not_happen_may_be_made_in_other_words() -> None:
    paid: list[int] = []
    made = paying(NotDone("no 5"), paid, reflections=1)
    result = Agent(PromptModel(script=[FIRST, MORE, FINAL]), [made]).run("Pay")
    assert (result.answer, paid) == ("done", [5, 6])


# ── what else is told of it ──────────────────────────────────────────────────────────────────────


class Notes:
    def __init__(self) -> None:
        self.answers: list[str] = []

    async def recall(self, question: str) -> Recalled:
        return Recalled()

    async def remember(self, question: str, answer: str) -> None:
        self.answers.append(answer)


def test_a_memory_is_told_of_a_call_whose_outcome_is_not_known() -> None:
    notes = Notes()
    script = [{"when": "took effect", "finish": "I do not know"}, PAY]
    Agent(PromptModel(script=script), [paying(OSError("reset"), [])], memory=notes).run("Pay 5")
    assert notes.answers == ['I do not know\n(Whether this call took effect is not known: pay({"amount": 5}))']


def test_a_memory_is_not_told_of_what_was_settled() -> None:
    notes = Notes()
    human = lambda action, problem: Decision("approve")  # noqa: E731
    agent = Agent(PromptModel(script=AGAIN), [paying(OSError("reset"), [])], memory=notes, human=human)
    assert agent.run("Pay 5").answer == "done"
    assert notes.answers == ["done"]


def test_the_log_says_what_a_tool_may_declare(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "retinue")
    script = [{"when": "took effect", "finish": "done"}, PAY]
    Agent(PromptModel(script=script), [paying(OSError("reset"), [])]).run("Pay 5")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "retinue.core.tools.toolbox"]
    assert said.startswith("pay failed: OSError: reset; whether it took effect is not known (if it does no harm")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"reflections": -1}, "reflections: want a count of 0 or more, not -1"),
        ({"timeout": 0}, "timeout: want a number of seconds above 0, not 0"),
        ({"timeout": -1.0}, "timeout: want a number of seconds"),
        ({"timeout": float("nan")}, "timeout: want a number of seconds"),
        ({"timeout": None}, "timeout: want a number of seconds"),
        ({"effects": "none"}, "effects: want read, idempotent, once, not 'none'"),
        ({"not_done": "Nonsense"}, "not_done: want exceptions"),
        ({"not_done": (3,)}, "not_done: want exceptions"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=f"tool t: {problem}"):
        Tool("t", lambda query: query, **options)


def test_a_tools_own_timeout_error_is_not_its_limit() -> None:
    def pay(query: str) -> str:
        raise TimeoutError("the bank did not answer")

    async def later(query: str) -> str:
        raise TimeoutError

    script = [{"when": "failed", "finish": "done"}, {"call": {"tool": "pay", "input": "x"}}]
    for function, text in (
        (pay, "pay failed: TimeoutError: the bank did not answer"),
        (later, "pay failed: TimeoutError"),
    ):
        (seen,) = told(Agent(PromptModel(script=script), [Tool("pay", function, effects="read")]).run("Pay"))
        assert (seen.outcome, seen.text) == ("failed", text)


# ── generated histories ──────────────────────────────────────────────────────────────────────────


class World:
    """What happened, and what a person said: a model of the rule beside the code."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.state: dict[int, str] = {}  # of a call, by its amount: "unknown" from its beginning, or "known"
        self.word: dict[int, bool] = {}  # whether a person let it begin, since it last did
        self.run: Run | None = None
        self.asked = 0
        self.broken = False  # a tool's assertion would be an observation

    async def pay(self, amount: int, note: str = "") -> str:
        """Pay an amount."""
        before, word = self.state.get(amount), self.word.get(amount, False)
        self.broken |= before is not None and not word
        self.state[amount], self.word[amount] = "unknown", False
        match self.random.choice(["result", "harmless", "not done", "error", "hang", "exit", "own cancel", "cancel"]):
            case "result":
                self.state[amount] = "known"
                return f"paid {amount}"
            case "harmless" | "not done" as kind:  # as if it had not begun
                self.word[amount] = word
                self.state.pop(amount) if before is None else self.state.update({amount: before})
                raise ValueError("no") if kind == "harmless" else NotDone("no")
            case "error":
                raise ConnectionError("reset")
            case "exit":
                raise SystemExit(3)
            case "own cancel":
                raise asyncio.CancelledError
            case "cancel" if self.run is not None:
                self.run.cancel()
        await asyncio.Event().wait()
        return ""

    def decide(self, action: AgentAction, problem: str) -> Decision | None:
        """A person's word."""
        self.asked += "outcome is unknown" in problem
        amount = amount_of(action.tool_input)
        match self.random.choice(["approve", "respond", "reject", "edit", "nothing"]):
            case "approve":
                self.word[amount] = True
                return Decision("approve")
            case "respond":
                if amount in self.state:  # else it is said of a call that was never begun
                    self.state[amount] = "known"
                return Decision("respond", message="it happened")
            case "reject":
                return Decision("reject")
            case "edit":
                edited = self.written()
                self.word[amount_of(edited)] = True
                return Decision("edit", tool_input=edited)
        return None

    def written(self) -> ToolInput:
        """One of two calls, in one of several ways."""
        amount = self.random.choice([1, 2])
        ways: list[ToolInput] = [
            {"amount": amount},
            {"amount": str(amount)},
            {"note": "", "amount": float(amount)},
            json.dumps({"amount": amount}),
        ]
        return self.random.choice(ways)


def amount_of(given: ToolInput) -> int:
    values = json.loads(given) if isinstance(given, str) else given
    return int(values["amount"])


class Verdicts:
    """A model that is only asked whether results fit."""

    name = "verdicts"

    def __init__(self, world: World) -> None:
        self.world = world

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities()

    async def reply(self, request: Ask) -> Chunks:
        given = self.world.written()
        text = given if isinstance(given, str) else json.dumps(given)
        yield Reply(self.world.random.choice([" agree", f" rephrase: {text}"]))


async def history(seed: int) -> World:
    """Calls, crashes, cancels, resumptions and persons, as the seed has it."""
    world = World(seed)
    random = world.random
    steps = [[world.written() for _ in range(random.choice([1, 1, 2, 3, 18]))] for _ in range(random.randint(1, 4))]
    limits = {"timeout": 0.002, "reflections": random.choice([0, 1]), "approval": random.random() < 0.2}
    pay = Tool("pay", world.pay, not_done=(ValueError,), **limits)  # type: ignore[arg-type]
    human = world.decide if random.random() < 0.5 else None
    agent = Agent(
        Verdicts(world),
        [pay],
        strategy=Planned(*steps),
        human=human,
        budget=Budget(steps=None, stale_steps=None),
    )
    log: list[Event] = []
    for _ in range(8):
        waiting = paused_in(log)
        decided = {one.action.id: world.decide(one.action, one.problem) for one in waiting if random.random() < 0.8}
        given = {call: decision for call, decision in decided.items() if decision is not None}
        run = world.run = Run(agent, "Pay", (), Earlier(log, given))
        await drive(run, random)
        log = list(cut(run.log, random))
        if isinstance(log[-1], Finished):
            break
    return world


async def drive(run: Run, random: Random) -> None:
    """To the end, or for a few events: then the process dies."""
    left = random.choice([1, 2, 3, 5, 8, 13, 999, 999])
    async with aclosing(run.events()) as events:
        async for _ in events:
            left -= 1
            if left == 0:
                return


def cut(log: Sequence[Event], random: Random) -> Sequence[Event]:
    """As much of it as was on the disk: all intents are, for they come before the effects."""
    called = max((at for at, event in enumerate(log) if isinstance(event, Called)), default=0)
    return log[: random.choice([len(log), len(log), random.randint(called + 1, len(log))])]


def paused_in(log: Sequence[Event]) -> Iterator[Paused]:
    from retinue.core.run_result import pending

    if log and isinstance(log[-1], Stopped):
        problems = {event.action.id: event for event in log if isinstance(event, Paused)}
        yield from (problems[action.id] for action in pending(log) if action.id in problems)


@pytest.mark.parametrize("part", range(4))
def test_never_two_beginnings_without_a_persons_word_between_them(part: int, full: bool) -> None:
    each = 500 if full else 50

    async def histories() -> list[World]:
        return [await history(seed) for seed in range(500 * part, 500 * part + each)]

    worlds = asyncio.run(histories())
    assert [500 * part + at for at, world in enumerate(worlds) if world.broken] == []
    assert sum(world.asked for world in worlds) > each * 3 // 5
