"""The executor's care for a run: stagnation, budgets announced and kept, best answers, windows, direct results."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from retinue import Agent, Budget, PromptModel, RunResult, StopReason, Tool, UsageError, WindowExceeded, tool
from retinue.core.events import Asked, Called, Compacted, Delta, Event, Observed
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Chunks, Flow, Task, act, ask
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Message, Reply, Usage
from retinue.strategies.parsing.react_text import format_decision


@tool(effects="read")
def lookup(name: str) -> str:
    """Look somebody up."""
    return "nothing is known" if name.startswith("?") else f"{name} is 47"


def call(name: str, times: int = 1, tool: str = "lookup") -> dict[str, Any]:
    return {"call": {"tool": tool, "input": name}, "times": times}


def run(*script: Any, tools: Sequence[Any] = (lookup,), **budget: Any) -> RunResult:
    return Agent(PromptModel(script=script), tools, budget=Budget(**budget)).run("How old are they?")


def closings(result: RunResult) -> list[bool]:
    return [event.closing for event in result.events if isinstance(event, Asked)]


def observed(result: RunResult) -> list[str]:
    return [f"{seen.text} {seen.note}".strip() for step in result.steps for seen in step.observations]


# ── stagnation ───────────────────────────────────────────────────────────────────────────────────


class Parrot:
    """A model that writes its script over and over, and answers when asked for nothing but the answer."""

    def __init__(self, *script: str, answer: str = " 47", abilities: Capabilities = Capabilities()) -> None:
        self.name = "parrot"
        self.asked: list[Ask] = []
        self._script = itertools.cycle(script)
        self._answer = answer
        self._abilities = abilities

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self._abilities

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        text = next(self._script) if request.closing else self._answer
        yield Delta(text)
        yield Reply(text, Usage(len(request.prompt.text), len(text), 0, 1))


def acting(name: str, tool: str = "lookup") -> str:
    return f" I wonder\nAction: {tool}\nAction Input: {name}\n"


@pytest.mark.parametrize(
    "script",
    [
        [acting("Ada")],
        [acting("Ada"), acting("Bob")],
        [acting("?a"), acting("?b"), acting("?c"), acting("?d"), acting("?e")],
        [acting("Ada", tool="ghost")],
    ],
    ids=["the same call", "A-B-A-B", "other inputs, same result", "a tool there is not"],
)
def test_turns_that_bring_nothing_new_end_in_a_forced_answer(script: list[str]) -> None:
    model = Parrot(*script)
    result = Agent(model, [lookup], budget=Budget(steps=50)).run("?")
    assert (result.answer, result.stop_reason) == ("47", StopReason.STAGNATED)
    assert len(model.asked) <= 6
    assert closings(result)[-1]
    assert "Nothing new came of this" in observed(result)[-1]
    assert result.resumable


def test_a_model_that_learns_something_in_between_is_not_stagnating() -> None:
    names = ["Ada", "Ada", "Ada", "Bob", "Bob", "Bob", "Cid"]
    result = run(*[call(name) for name in names], {"finish": "47"})
    assert (result.answer, result.stop_reason) == ("47", StopReason.ANSWER)


def test_tools_that_poll_and_tools_with_effects_may_say_the_same_again() -> None:
    poll = Tool("poll", lambda job: "not yet", effects="read", polls=True)
    post = Tool("post", lambda text: "posted")
    result = run(call("job", 6, "poll"), {"finish": "done"}, tools=[poll])
    assert result.answer == "done"
    result = run(*[call(str(number), 1, "post") for number in range(6)], {"finish": "done"}, tools=[post])
    assert (result.answer, len(result.evidence)) == ("done", 6)


def test_stagnation_can_be_switched_off_and_limited() -> None:
    model = Parrot(acting("Ada"))
    result = Agent(model, [lookup], budget=Budget(steps=8, stale_steps=None)).run("?")
    assert len(model.asked) == 8
    assert result.stop_reason is StopReason.ANSWER
    with pytest.raises(UsageError, match="0 stale_steps"):
        Budget(stale_steps=0)


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────


def test_the_model_is_told_when_70_percent_of_its_steps_are_spent() -> None:
    result = run(*[call(f"p{number}") for number in range(9)], {"finish": "47"}, steps=10)
    assert [("come to an answer" in text) for text in observed(result)] == [False] * 6 + [True, True, False]
    assert "(3 of 10 steps left: come to an answer.)" in result.transcript


def test_one_call_without_tools_is_kept_of_a_budget_of_tokens() -> None:
    model = Parrot(*[acting(f"p{number}") for number in range(99)])
    result = Agent(model, [lookup], budget=Budget(steps=None, tokens=20_000)).run("?")
    assert (result.answer, result.stop_reason) == ("47", StopReason.ANSWER)
    assert closings(result)[-1]
    assert result.usage.total_tokens <= 20_000
    assert any("tokens left: come to an answer" in text for text in observed(result))


def test_one_call_without_tools_is_kept_of_the_time() -> None:
    script = [call(f"p{number}") | {"delay": 0.05} for number in range(99)] + [{"finish": "47"}]
    result = run(*script, steps=None, seconds=1.0)
    assert result.stop_reason in (StopReason.ANSWER, StopReason.MAX_EXECUTION_TIME_EXCEEDED)
    assert closings(result)[-1]
    assert result.seconds < 1.5


def test_force_stops_without_another_call_and_says_so_in_langchains_words() -> None:
    model = Parrot(*[acting(f"p{number}") for number in range(9)])
    result = Agent(model, [lookup], budget=Budget(steps=3, early_stopping_method="force")).run("?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert len(model.asked) == 3
    assert not any(closings(result))
    assert result.events[-1].detail == "Agent stopped due to iteration limit or time limit."  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="early_stopping_method"):
        Budget(early_stopping_method="explode")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pairs:
    """Acts twice at a time, without asking anybody, and knows a little more each time."""

    turns: Sequence[tuple[str, str]]
    tool: str = "lookup"
    name: str = "pairs"

    def __call__(self, task: Task) -> Flow:
        for number, turn in enumerate(self.turns):
            yield from act(*[AgentAction(self.tool, name) for name in turn], answer=f"guess {number}")
            yield from ask(Ask(Prompt(Message("user", "go on")), "go on", format_decision))
        return AgentFinish({"output": "all"})


def test_a_stopped_run_has_its_best_answer_its_evidence_and_can_be_resumed_with_more() -> None:
    agent = Agent(PromptModel(script=[{"raw": "hm"}]), [lookup], strategy=Pairs([("a", "b"), ("c", "d"), ("e", "f")]))
    agent.budget = Budget(steps=1)
    result = agent.run("?")
    assert (result.answer, result.stop_reason) == ("", StopReason.MAX_ITERATION_EXCEEDED)
    assert result.best_answer == "guess 1"
    assert [seen.text for seen in result.evidence] == ["a is 47", "b is 47", "c is 47", "d is 47"]
    assert result.resumable
    again = agent.resume(result.events, budget=Budget(steps=5))
    assert (again.answer, again.stop_reason) == ("all", StopReason.ANSWER)
    assert len([event for event in again.events if isinstance(event, Called)]) == 6


def test_a_run_that_came_to_its_last_step_goes_on_from_there_with_a_larger_budget() -> None:
    model = Parrot(*[acting(f"p{number}") for number in range(99)], answer=" ")
    agent = Agent(model, [lookup], budget=Budget(steps=3))
    result = agent.run("?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    longer = agent.resume(result.events, budget=Budget(steps=6))
    assert len(longer.steps) == 5
    assert len(agent.resume(longer.events, budget=Budget(steps=8)).steps) == 7


# ── several actions, direct results ──────────────────────────────────────────────────────────────


def test_the_actions_of_one_step_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)

    @tool(effects="read")
    def meet(name: str) -> str:
        """Wait for the other."""
        both.wait()
        return f"met {name}"

    agent = Agent(PromptModel(script=[{"raw": "hm"}]), [meet], strategy=Pairs([("a", "b")], "meet"))
    assert [seen.text for seen in agent.run("?").evidence] == ["met a", "met b"]


def test_the_same_call_twice_in_one_step_has_one_effect() -> None:
    done: list[str] = []

    @tool
    async def pay(name: str) -> str:
        """Pay somebody."""
        await asyncio.sleep(0)
        done.append(name)
        return f"paid {name}"

    agent = Agent(PromptModel(script=[{"raw": "hm"}]), [pay], strategy=Pairs([("Ada", "Ada")], "pay"))
    result = agent.run("?")
    assert done == ["Ada"]
    assert [seen.outcome for seen in result.steps[0].observations] == ["result", "repeated"]


def test_a_tool_that_returns_directly_ends_the_run_with_its_result() -> None:
    direct = Tool("direct", lambda name: f"straight from {name}", effects="read", return_direct=True)
    result = run(call("Ada", tool="direct"), {"finish": "never asked"}, tools=[direct])
    assert (result.answer, result.stop_reason) == ("straight from Ada", StopReason.ANSWER)
    assert result.usage.requests == 1


def test_a_direct_tool_that_fails_is_an_observation_like_any_other() -> None:
    def fails(name: str) -> str:
        raise ValueError(name)

    result = run(call("Ada", tool="fails"), {"finish": "47"}, tools=[Tool("fails", fails, return_direct=True)])
    assert result.answer == "47"


# ── the model's window ───────────────────────────────────────────────────────────────────────────


@tool(effects="read")
def page(number: str) -> str:
    """Read a page."""
    return f"page {number} begins. {'words and more words. ' * 60}page {number} ends."


@dataclass
class Small(Parrot):
    """A model with a window of `limit` characters, of which it may or may not tell."""

    limit: int = 9_000
    tells: bool = True
    sizes: list[int] = field(default_factory=list)

    def __init__(self, *script: str, tells: bool) -> None:
        self.limit, self.tells, self.sizes = 9_000, tells, []
        super().__init__(*script, abilities=Capabilities(window=3_000 if tells else None))

    async def reply(self, request: Ask) -> Chunks:
        size = len(request.prompt.text)
        self.sizes.append(size)
        if size > self.limit:
            raise WindowExceeded("the prompt is too long")
        async for chunk in super().reply(request):
            yield Reply(chunk.text, Usage(size // 3, 9, 0, 1)) if isinstance(chunk, Reply) else chunk


@pytest.mark.parametrize("tells", [True, False], ids=["the window is known", "the engine refuses"])
def test_what_outgrows_the_window_is_shortened_oldest_first(tells: bool) -> None:
    model = Small(*[acting(str(number), "page") for number in range(30)], tells=tells)
    result = Agent(model, [page], budget=Budget(steps=25)).run("What is on the pages?")
    assert (result.answer, result.stop_reason) == ("47", StopReason.ANSWER)
    asked = [event for event in result.events if isinstance(event, Asked)]
    made = [event for event in result.events if isinstance(event, Compacted)]
    assert {event.tier for event in made} <= {"clear", "drop"}
    assert 1 <= len(made) <= len(asked) * 0.6, "room is made for several steps at once"
    text = next(one.prompt.text for one in model.asked if "(cleared: page" in one.prompt.text)
    assert "Question: What is on the pages?" in text
    assert "page 0 begins" not in text
    assert f"page {made[0].step - 2} ends." in text
    if tells:
        assert max(model.sizes) <= model.limit


def test_between_shortenings_each_prompt_extends_the_former() -> None:
    model = Small(*[acting(str(number), "page") for number in range(30)], tells=True)
    result = Agent(model, [page], budget=Budget(steps=25)).run("?")
    cut = {event.step for event in result.events if isinstance(event, Compacted)}
    for step, (before, after) in enumerate(itertools.pairwise(model.asked), 2):
        assert after.prompt.text.startswith(before.prompt.text) != (step in cut)


@pytest.mark.parametrize("tells", [True, False])
def test_a_shortened_run_is_replayed_to_the_same_prompts(tells: bool) -> None:
    model = Small(*[acting(str(number), "page") for number in range(30)], tells=tells)
    agent = Agent(model, [page], budget=Budget(steps=15))
    log: list[Event] = list(agent.run("?").events)
    cuts = [at for at, event in enumerate(log) if isinstance(event, Observed)]
    for cut in cuts[::3]:
        again = Small(*[acting(str(number), "page") for number in range(30)], tells=tells)
        for _ in range(sum(isinstance(event, Observed) for event in log[: cut + 1])):
            next(again._script)
        resumed = Agent(again, [page], budget=Budget(steps=15)).resume(log[: cut + 1])
        assert [event.messages for event in resumed.events if isinstance(event, Asked)] == [
            event.messages for event in log if isinstance(event, Asked)
        ]


def test_a_prompt_that_cannot_be_shortened_ends_the_run_as_an_error() -> None:
    model = Small(acting("1", "page"), tells=False)
    model.limit = 10
    with pytest.raises(WindowExceeded, match="too long"):
        Agent(model, [page]).run("?")


def test_the_calls_of_one_step_have_ids_of_their_own_also_when_one_was_reflected_on() -> None:
    @tool(reflections=2, effects="read")
    def find(name: str) -> str:
        """Find somebody."""
        return f"{name}?"

    script = [
        {"when": "b\\?", "finish": "b"},
        {"when": "a\\?", "call": {"tool": "find", "input": "b"}},
        {"call": {"tool": "find", "input": "a"}},
    ]
    result = Agent(PromptModel(script=script), [find]).run("?")
    assert [event.action.id for event in result.events if isinstance(event, Called)] == ["call_1_0", "call_1_1"]
    assert [seen.text for seen in result.evidence] == ["a?", "b?"]
    assert result.answer == "b"
