"""The answer as it streams: what is shown of it only grows, is never taken back, and is nothing but the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given, settings, strategies as st

from fakes.said import Said
from retinue import Agent, Budget, Decision, Delta, PromptModel, StopReason, tool
from retinue.core.events import Event, Finished, Replied, Stopped
from retinue.core.prompt import Ask
from retinue.core.protocols import Retry, Strategy, Task
from retinue.core.serialization import from_json, to_json
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Reply
from retinue.strategies import STRATEGIES, PlanExec, React, ReactJson, SelfAsk, ToolCalling, simple
from retinue.strategies.planexec import Planner
from retinue.strategies.wrappers.prompt_additions import with_instructions
from sampling import examples

ANSWERS = (
    "Paris, of course.",
    "No. It is Lyon",
    "First line.\nSecond: line\n\n```py\nprint(1)\n```",
    'She said "no\\no" \U0001f600 {x} [1]',
    "a " * 150 + "end. And one more. " + "b " * 20,
)


@tool(effects="read")
def lookup(name: str) -> str:
    """Look a thing up."""
    return f"{name} is found"


def approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


def streamed(model: Said, strategy: Strategy | str, **settings: object) -> tuple[str, Finished | Stopped]:
    """What a run has shown of its answer, and how it ended."""
    agent = Agent(model, [lookup], strategy=strategy, human=approve, **settings)  # type: ignore[call-overload]
    seen = list(agent.stream("Where?"))
    last = seen[-1]
    assert isinstance(last, Finished | Stopped)
    return "".join(one.answer for one in seen if isinstance(one, Delta)), last


def replies(strategy: str, answer: str, able: Capabilities, budget: Budget) -> list[Reply]:
    """What a model with these abilities says that looks something up and then answers."""

    class Able(PromptModel):
        async def abilities(self, *, native: bool = False) -> Capabilities:
            return able

    script = [{"when": "is found", "finish": answer}, {"call": {"tool": "lookup", "input": "x"}}]
    run = Agent(Able(script=script), [lookup], strategy=strategy, human=approve, budget=budget).run("Where?")
    said = [event.reply for event in run.events if isinstance(event, Replied)]
    for at, marker in enumerate(("Final Answer:", "So the final answer is:") if able.constrains else ()):
        before, found, after = said[-1].text.partition(marker)
        if found and strategy == ("react", "self_ask")[at]:  # held to a pattern, it answers in a reply of its own
            said[-1:] = [Reply(before + found), Reply(after)]
    return said


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(answer=st.sampled_from(ANSWERS), steps=st.sampled_from([2, 10]), constrained=st.booleans(), sizes=SIZES)
@settings(max_examples=examples(20))
def test_what_is_shown_is_a_beginning_of_the_answer(
    strategy: str, answer: str, steps: int, constrained: bool, sizes: list[int]
) -> None:
    able, budget = Capabilities(constrains=constrained, calls_tools=True), Budget(steps + ("lan" in strategy))
    model = Said(replies(strategy, answer, able, budget), able, sizes)
    shown, last = streamed(model, strategy, budget=budget)
    assert isinstance(last, Finished), last
    assert last.answer.startswith(shown)
    assert shown or strategy in ("careful", "planexec", "humanInLoopPlanExec"), "here the only step of a plan answers"


# ── any text: what the reader of a reply makes of it begins with what was shown of it ────────────

FRAGMENTS = (
    *("Thought:", "thought", "Final Answer:", "Final", "final answer", "**Final Answer:** ", "Action: lookup"),
    *("Action:", "Action: None", "Action Input: x", "Action In", "Tool: lookup", "Input: 1", "Observation:", "obser"),
    *("Question:", "Follow up: x", "Follow up [lookup]: x", "Follow", "So the final answer is:", "So the", "[lookup]"),
    *("Intermediate answer:", "#", ">", "1.", "_", "]", "(", ". ", ".", ":", "a", "Paris", "no ", "not found"),
    *(
        "\n",
        "\n",
        " ",
        "  ",
        "\t",
        "- ",
        "**",
        "`",
        "```",
        "```json\n",
        "1",
        "42",
        "{",
        "}",
        "[",
        '"',
        "é",
        "ſ",
        "\ufffd",
    ),
    *("No appropriate tool available", "thoughtful", '{"action": "lookup", "action_input": "x"}', '{"answer": "x"}'),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join)
EXAMPLES = 200
TOOLS = (lookup,)
TASK = Task("Where?", TOOLS)


def asked(strategy: Strategy, *, closing: bool) -> tuple[Callable[[str], str], Callable[[str], AgentFinish]]:
    """What is shown of a reply to the first question, and what comes of the whole."""

    def read(text: str) -> AgentFinish:
        flow = strategy(TASK)
        request = next(flow)
        assert isinstance(request, Ask)
        try:
            flow.send(Reply(text, closing=closing))
        except StopIteration as stop:
            finish = stop.value
            assert isinstance(finish, AgentFinish)
            return finish
        return AgentFinish({}, reason=StopReason.ERROR)

    request = next(strategy(TASK))
    assert isinstance(request, Ask)
    if closing:
        assert request.closing is not None
        request = request.closing()
    assert request.answer is not None
    return request.answer, read


def check(shown: Callable[[str], str], read: Callable[[str], AgentFinish], text: str) -> None:
    before = ""
    for end in range(len(text) + 1):
        now = shown(text[:end])
        assert now.startswith(before), (text[:end], before, now)
        before = now
    finish = read(text)
    if finish.reason is StopReason.ANSWER:
        assert finish.output.startswith(before), (before, finish.output)


@given(text=TEXTS)
@example(text="Final Answer: Paris\n- - -\n  thou")
@example(text="Final Answer: a final   answer")
@example(text="Thought: hm Final Answer: x\nAction: lookup\nAction Input: y")
@example(text="Action: None\nFinal Answer: x")
@settings(max_examples=examples(EXAMPLES))
def test_react(text: str) -> None:
    check(*asked(React(), closing=False), text)


@given(text=TEXTS)
@example(text="Thoughtful people\nFinal Answer: x")
@example(text='Here it is:\n```json\n{"answer": "x"}\n```')
@settings(max_examples=examples(EXAMPLES))
def test_react_closing(text: str) -> None:
    check(*asked(React(), closing=True), text)


@given(text=TEXTS)
@settings(max_examples=examples(EXAMPLES))
def test_a_plans_closing(text: str) -> None:
    check(*asked(PlanExec(), closing=True), text)
    check(*asked(Planner(), closing=True), text)


@pytest.mark.parametrize("closing", [False, True])
@given(text=TEXTS)
@example(text="use {x}")
@settings(max_examples=examples(EXAMPLES))
def test_self_ask(closing: bool, text: str) -> None:
    check(*asked(SelfAsk(), closing=closing), text)


@pytest.mark.parametrize("closing", [False, True])
@given(text=TEXTS)
@settings(max_examples=examples(EXAMPLES))
def test_tool_calling(closing: bool, text: str) -> None:
    strategy = ToolCalling()
    native = partial(strategy, Task("Where?", TOOLS, calls_tools=True))
    check(*asked(lambda _: native(), closing=closing), text)  # type: ignore[arg-type]


KEYS = st.dictionaries(st.sampled_from(["scratchpad", "x"]), st.text())


@pytest.mark.parametrize("closing", [False, True])
@given(answer=st.text(), before=KEYS, ascii_only=st.booleans(), cut=st.integers(0, 30))
@settings(max_examples=examples(EXAMPLES))
def test_json(closing: bool, answer: str, before: dict[str, str], ascii_only: bool, cut: int) -> None:
    text = json.dumps(before | {"answer": answer, "y": 1}, indent=1, ensure_ascii=ascii_only)
    check(*asked(ReactJson(), closing=closing), text[: len(text) - cut])
    values = before | {"decision": {"final_answer": answer}}
    for strategy in (React(), SelfAsk(), PlanExec()) if closing else (React(), SelfAsk()):
        check(*asked(strategy, closing=closing), json.dumps(values, ensure_ascii=ascii_only))


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────


def test_a_reply_begun_anew_shows_what_goes_beyond_the_former() -> None:
    said: list[str | Reply | Retry]
    said = ["Final Answer: Paris, per", Retry("lost", 0.0), "Final Answer: Paris, perhaps", Retry("lost", 0.0)]
    shown, last = streamed(Said([*said, "Final Answer: Paris, perhaps not"], sizes=[3]), "react")
    assert isinstance(last, Finished)
    assert shown == last.answer == "Paris, perhaps not"


def test_a_message_before_native_calls_is_shown_and_then_the_answer() -> None:
    calls = (AgentAction("lookup", {"name": "x"}),)
    model = Said([Reply("I look. ", calls=calls), "Here."], Capabilities(calls_tools=True), [2])
    assert streamed(model, "tool_calling")[0] == "I look.Here."


def test_steps_of_a_plan_are_not_shown_and_its_answer_is() -> None:
    plan = ["1. look x up\n2. look y up", "Final Answer: found x", "Final Answer: found y"]
    shown, last = streamed(
        Said([*plan, "not found: z", "1. look z up", "Final Answer: no z", " Both."], sizes=[4]), "planexec"
    )
    assert isinstance(last, Finished)
    assert shown == last.answer == "Both."


def test_an_answer_with_a_schema_comes_at_once_at_the_end() -> None:
    for budget in (Budget(), Budget(1)):
        model = Said([" Final Answer: Paris" if budget.steps != 1 else " Paris", '"Paris"'], sizes=[4])
        shown, last = streamed(model, "react", budget=budget, answer={"type": "string", "minLength": 4})
        assert isinstance(last, Finished)
        assert shown == ""


def test_instructions_and_reflection_leave_it_as_it_is() -> None:
    model = Said(["Final Answer: Paris"], sizes=[4])
    assert streamed(model, with_instructions(React(), "Be kind."))[0] == "Paris"
    reflected = tool(name="lookup", reflections=1)(lambda name: name)
    agent = Agent(Said(["Final Answer: Paris"], sizes=[4]), [reflected])
    assert "".join(one.answer for one in agent.stream("Where?") if isinstance(one, Delta)) == "Paris"


def test_of_a_strategy_of_ones_own_nothing_is_known() -> None:
    own = simple("own", prompt=lambda values: "?", parse=lambda text: AgentFinish({"output": text}))
    assert streamed(Said(["Paris"], sizes=[4]), own)[0] == ""


def test_a_run_that_is_stopped_says_what_it_had_shown() -> None:
    run = Agent(Said(["Final Answer: Paris, perhaps"], sizes=[8]), [lookup]).start("Where?")

    async def cut() -> list[Event]:
        async for event in run.events():
            if isinstance(event, Delta) and event.answer:
                run.cancel()
        return run.log

    last = asyncio.run(cut())[-1]
    assert isinstance(last, Stopped)
    assert (last.reason, last.partial) == (StopReason.CANCELLED, "Pa")
    assert from_json(to_json(last)) == last
    assert from_json('{"kind": "stopped", "reason": "ERROR", "detail": "x"}') == Stopped(StopReason.ERROR, "x")
    assert json.loads(to_json(Delta("x", "y"))) == {"kind": "delta", "text": "x", "answer": "y", "reasoning": ""}
