"""The loop: every way a run can end, and what its log then says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, Budget, ModelUnavailable, PromptModel, RunResult, StopReason, Tool, ToolError, tool
from retinue.core.events import Asked, Called, Delta, Event, Finished, Observed, Replied, Retried, Started, Stopped
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Chunks, Flow, Task, ask
from retinue.core.values import Capabilities, Message, Reply, Usage
from retinue.extend import AgentAction
from retinue.net.retry import Retries
from retinue.strategies.parsing.react_text import format_decision


@tool(effects="read")
def lookup(name: str) -> str:
    """Look a person up."""
    if name == "nobody":
        raise ToolError("there is no such person")
    return f"{name} is 47 years old"


def scripted(*script: Any, **settings: Any) -> PromptModel:
    return PromptModel(script=script, retries=Retries(tries=3, first_wait=0.001), **settings)


def agent(*script: Any, budget: Budget | None = None, tools: Sequence[Any] = (lookup,)) -> Agent:
    return Agent(scripted(*script), tools, budget=budget or Budget())


def call(name: str) -> dict[str, Any]:
    return {"call": {"tool": "lookup", "input": name}, "times": 1}


def kinds(result: RunResult) -> list[type[Event]]:
    return [type(event) for event in result.events]


def test_a_run_decides_acts_observes_and_answers() -> None:
    result = agent(call("Ada"), {"finish": "47"}).run("How old is Ada?")
    assert result.answer == "47"
    assert result.stop_reason is StopReason.ANSWER
    assert kinds(result) == [Started, Asked, Replied, Called, Observed, Asked, Replied, Finished]
    assert [(step.actions[0].tool_input, step.observations[0].text) for step in result.steps] == [
        ("Ada", "Ada is 47 years old")
    ]
    assert result.usage.requests == 2
    assert result.usage.output_tokens > 0
    assert str(result) == "47"


def inner(**options: Any) -> Agent:
    return agent({"call": {"tool": "lookup", "input": "Ada"}, "times": 1}, {"finish": "47"}, **options)


@pytest.mark.parametrize("how", ["agent", "async function", "function"])
def test_the_tokens_of_an_agent_that_is_a_tool_are_counted(how: str) -> None:
    async def asks(question: str) -> str:
        return (await inner().run_async(question)).answer

    made: dict[str, Any] = {"agent": inner(), "async function": asks, "function": lambda q: inner().run(q).answer}
    spent = inner().run("How old is Ada?").usage
    someone = Tool("someone", made[how], effects="read")
    outer = agent(
        {"call": {"tool": "someone", "input": "How old is Ada?"}, "times": 1}, {"finish": "47"}, tools=[someone]
    )
    result = outer.run("?")
    own = sum((event.reply.usage for event in result.events if isinstance(event, Replied)), Usage())
    assert result.usage == own + spent + Usage(runs=int(how == "agent"))
    assert result.usage.requests == 4
    assert outer.resume(result.events[:-2]).usage == result.usage, "it is read from the log"
    budget = Budget(tokens=own.total_tokens + 1)
    stopped = agent({"call": {"tool": "someone", "input": "?"}}, tools=[someone], budget=budget).run("?")
    assert stopped.stop_reason is StopReason.TOKEN_BUDGET_EXCEEDED


def test_the_intent_is_logged_before_the_tool_is_called() -> None:
    log: list[str] = []

    @tool(effects="read")
    def effect(name: str) -> str:
        log.append(f"effect of {name}")
        return "done"

    someone = agent({"call": {"tool": "effect", "input": "x"}, "times": 1}, {"finish": "y"}, tools=[effect])
    for event in someone.stream("?"):
        match event:
            case Called() | Observed():
                log.append(type(event).__name__)
    assert log == ["Called", "effect of x", "Observed"]


def test_the_intents_of_many_calls_are_logged_when_it_is_their_turn() -> None:
    calls = [{"tool": "lookup", "input": {"name": f"number {at}"}} for at in range(20)]
    script = scripted({"call": calls, "times": 1}, {"finish": "y"})
    result = Agent(script, [lookup], strategy="tool_calling").run("?")
    acted = [kind for kind in kinds(result) if kind in (Called, Observed)]
    assert acted == [Called] * 16 + [Observed] * 16 + [Called] * 4 + [Observed] * 4


def test_a_system_message_is_a_line_of_the_transcript() -> None:
    asked = Agent(Said(["Paris."], Capabilities(calls_tools=True)), [lookup], strategy="tool_calling")
    assert "\nWhat is the capital of France?" in asked.run("What is the capital of France?").transcript


def test_the_transcript_is_what_the_model_saw_and_wrote() -> None:
    result = agent(call("Ada"), {"finish": "47"}).run("How old is Ada?")
    assert result.transcript.endswith(
        "Question: How old is Ada?\n"
        "Thought: I should use lookup\nAction: lookup\nAction Input: Ada\n"
        "Observation: Ada is 47 years old\n"
        "Thought: I now know the final answer\nFinal Answer: 47"
    )


# ── stop reasons ─────────────────────────────────────────────────────────────────────────────────


def test_a_model_that_finds_no_tool_fitting_stops_with_that_reason() -> None:
    result = agent({"finish": "No appropriate tool available."}).run("?")
    assert result.stop_reason is StopReason.NO_APPROPRIATE_TOOL
    assert result.answer == ""


def test_the_last_allowed_step_asks_only_for_an_answer_and_accepts_it() -> None:
    result = agent(call("Ada"), call("Bob"), {"finish": "47"}, budget=Budget(steps=3)).run("How old?")
    last = [event for event in result.events if isinstance(event, Asked)][-1]
    assert last.closing
    assert last.messages[-1].content.endswith("Thought: I now know the final answer\nFinal Answer:")
    assert (result.answer, result.stop_reason) == ("47", StopReason.ANSWER)
    assert len(result.steps) == 2


def test_an_action_on_the_last_allowed_step_is_not_run() -> None:
    result = agent({"raw": " Ada\nAction: lookup\nAction Input: Ada"}, budget=Budget(steps=1)).run("How old?")
    assert Called not in kinds(result)
    assert (result.answer, result.stop_reason) == ("", StopReason.MAX_ITERATION_EXCEEDED), "no answer: a thought"


def test_a_run_without_an_answer_on_its_last_step_stops_at_its_steps() -> None:
    result = agent({"raw": "  "}, budget=Budget(steps=1)).run("How old?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert str(result) == "no answer (MAX_ITERATION_EXCEEDED: steps: 1 of 1 are used)"


@dataclass(frozen=True)
class Endless:
    """Asks the same for ever, and has no closing question."""

    name: str = "endless"

    def __call__(self, task: Task) -> Flow:
        prompt = Prompt(Message("user", task.question))
        while True:
            reply = yield from ask(Ask(prompt, task.question, format_decision))
            prompt = prompt.add(Message("assistant", reply.text), Message("user", "go on"))


def test_a_strategy_that_never_ends_is_stopped_at_its_steps() -> None:
    model = scripted({"raw": "hm"})
    result = Agent(model, [lookup], strategy=Endless(), budget=Budget(steps=4)).run("?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert result.usage.requests == 4


def test_a_run_stops_when_its_tokens_are_used_up() -> None:
    result = Agent(
        scripted({"raw": "five words are in here"}), [lookup], strategy=Endless(), budget=Budget(tokens=15)
    ).run("?")
    assert result.stop_reason is StopReason.TOKEN_BUDGET_EXCEEDED
    assert result.usage.requests == 2


@pytest.mark.parametrize("method", ["generate", "force"])
@pytest.mark.parametrize(
    ("budget", "detail"),
    [
        ({"tokens": 15}, "tokens: 19 of 15 are used"),
        ({"input_tokens": 4, "tokens": 1000}, "input_tokens: 9 of 4 are used"),
        ({"output_tokens": 10, "input_tokens": 1000}, "output_tokens: 10 of 10 are used"),
    ],
)
def test_which_tokens_are_used_up_is_said(budget: dict[str, int], detail: str, method: Any) -> None:
    limits = Budget(**budget, early_stopping_method=method)
    model = scripted({"raw": "five words are in here"})
    last = Agent(model, [lookup], strategy=Endless(), budget=limits).run("Well?").events[-1]
    assert isinstance(last, Stopped)
    assert (last.reason, last.detail) == (StopReason.TOKEN_BUDGET_EXCEEDED, detail)


def test_the_last_reply_that_tokens_allow_is_the_closing_one_and_is_no_longer_than_they_are() -> None:
    model = Said(
        [Reply(format_decision((AgentAction("lookup", "Ada"),)).text, Usage(50, 40)), Reply(" 47", Usage(50, 5))]
    )
    result = Agent(model, [lookup], budget=Budget(output_tokens=100)).run("How old?")
    assert (result.answer, [asked.max_tokens for asked in model.asked]) == ("47", [100, 60])
    assert [event.closing for event in result.events if isinstance(event, Asked)] == [False, True]


def test_the_model_is_told_which_tokens_are_nearly_used_up() -> None:
    acts = [Reply(format_decision((AgentAction("lookup", name),)).text, Usage(8, 1)) for name in "abcdefghi"]
    result = Agent(Said([*acts, "Final Answer: 47"]), [lookup], budget=Budget(20, input_tokens=90)).run("How old?")
    notes = [seen.note for seen in result.evidence if seen.note]
    assert notes[0] == "(26 of 90 input tokens left: come to an answer.)"


def test_a_model_that_hangs_is_interrupted_when_the_time_is_up() -> None:
    result = agent({"error": "hang"}, budget=Budget(seconds=0.05)).run("?")
    assert result.stop_reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED


def test_a_tool_that_hangs_is_interrupted_when_the_time_is_up() -> None:
    interrupted: list[str] = []

    @tool(effects="read")
    async def wait(name: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(name)
            raise
        return ""

    script = {"call": {"tool": "wait", "input": "x"}}
    result = agent(script, tools=[wait], budget=Budget(seconds=0.05)).run("?")
    assert result.stop_reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED
    assert interrupted == ["x"]


def test_a_cancelled_run_stops_at_once_and_says_so() -> None:
    async def cancelled() -> RunResult:
        run = agent({"error": "hang"}).start("?")
        async for event in run.events():
            if isinstance(event, Asked):
                asyncio.get_running_loop().call_soon(run.cancel)
        return run.result

    result = asyncio.run(cancelled())
    assert result.stop_reason is StopReason.CANCELLED
    assert kinds(result)[-1] is Stopped


def test_cancelling_the_task_of_a_run_ends_its_log_too() -> None:
    seen: list[Event | Delta] = []

    async def cancelled() -> None:
        asked = asyncio.Event()

        async def follow() -> None:
            async for event in agent({"error": "hang"}).stream_async("?"):
                seen.append(event)
                if isinstance(event, Asked):
                    asked.set()

        task = asyncio.create_task(follow())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert isinstance(seen[-1], Stopped)
    assert (seen[-1].reason, seen[-1].usage.requests) == (StopReason.CANCELLED, 1)


def test_a_model_that_never_says_anything_is_an_error_that_is_raised() -> None:
    with pytest.raises(ModelUnavailable, match="the script answers 500"):
        agent({"error": 500}).run("?")
    run = agent({"error": 500}).start("?")
    with pytest.raises(ModelUnavailable):
        asyncio.run(run.finish())
    assert run.log[-1] == Stopped(StopReason.ERROR, "the script answers 500", code="model_unavailable")
    with pytest.raises(ModelUnavailable):
        list(agent({"error": 500}).stream("?"))


def test_a_model_that_keeps_failing_after_a_reply_ends_the_run_as_an_error_with_its_words() -> None:
    result = agent(call("Ada"), {"error": 500}).run("?")
    assert result.stop_reason is StopReason.ERROR
    assert result.error == "the script answers 500"
    assert kinds(result).count(Retried) == 2


def test_a_model_that_fails_for_a_moment_costs_a_retry_and_not_the_run() -> None:
    result = agent({"error": 429, "times": 1}, {"error": "cut", "times": 1}, {"finish": "47"}).run("?")
    assert result.answer == "47"
    assert kinds(result).count(Retried) == 2


# ── what a model does wrong ──────────────────────────────────────────────────────────────────────


def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    result = agent({"call": {"tool": "Foo", "input": "x"}, "times": 1}, {"finish": "y"}).run("?")
    (seen,) = result.steps[0].observations
    assert (seen.outcome, seen.text) == ("unknown_tool", "Foo is not a valid tool, try one of [lookup].")
    assert result.answer == "y"


def test_a_tool_that_fails_is_an_observation_and_the_run_goes_on() -> None:
    result = agent(call("nobody"), {"finish": "y"}).run("?")
    (seen,) = result.steps[0].observations
    assert (seen.outcome, seen.text) == ("failed", "lookup failed: there is no such person")
    assert result.answer == "y"


def test_the_same_call_again_gets_the_former_result_and_no_second_effect() -> None:
    called: list[str] = []

    @tool
    def pay(name: str) -> str:
        called.append(name)
        return "paid"

    script = {"call": {"tool": "pay", "input": "Ada"}, "times": 2}
    result = agent(script, {"finish": "y"}, tools=[pay]).run("?")
    assert called == ["Ada"]
    assert [step.observations[0].outcome for step in result.steps] == ["result", "repeated"]
    assert result.steps[1].observations[0].text == "You used pay with this input before. Its result was: paid"


def test_a_reply_that_cannot_be_read_is_answered_with_the_expected_form() -> None:
    result = agent("I have no idea.", {"finish": "y"}).run("?")
    asked = [event for event in result.events if isinstance(event, Asked)]
    assert asked[1].problem == "Invalid Format: Missing 'Action:' after 'Thought:'"
    assert "Action: one of [lookup]" in asked[1].messages[-1].content
    assert result.answer == "y"


@dataclass
class CutShort:
    """A model whose first reply ends at its token limit, in the middle of an input."""

    name: str = "cut-short"
    asked: int = 0

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(constrains=False)

    async def reply(self, request: Ask) -> Chunks:
        self.asked += 1
        if self.asked == 1:
            yield Reply("Action: lookup\nAction Input: Ada Lov", finish="length")
        else:
            yield Reply("Final Answer: y")


def test_an_action_that_was_cut_off_is_not_run() -> None:
    result = Agent(CutShort(), [lookup]).run("?")
    assert Called not in kinds(result)
    assert result.answer == "y"


def test_deltas_are_streamed_but_not_part_of_the_log() -> None:
    run = agent({"finish": "47"}).start("?")

    async def texts() -> str:
        return "".join([event.text async for event in run.events() if isinstance(event, Delta)])

    assert asyncio.run(texts()) == " I now know the final answer\nFinal Answer: 47"
    assert not any(isinstance(event, Delta) for event in run.log)


def test_a_run_that_never_waits_for_anything_ends_when_its_time_is_up() -> None:
    calls: list[str] = []

    @tool(effects="read")
    async def busy(name: str) -> str:
        calls.append(name)
        time.sleep(0.2)  # noqa: ASYNC251 -- as a tool does that computes something, or was made async by mistake
        return f"{name}: {len(calls)}"

    acts = [Reply(format_decision((AgentAction("busy", name),)).text) for name in "abcdefgh"]
    result = Agent(
        Said([*acts, "Final Answer: 47"]), [busy], budget=Budget(20, seconds=0.1, early_stopping_method="force")
    ).run("How old?")
    assert (result.stop_reason, calls) == (StopReason.MAX_EXECUTION_TIME_EXCEEDED, ["a"])
