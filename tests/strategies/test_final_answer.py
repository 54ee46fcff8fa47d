"""The last question of a run that is out of budget: only an answer is a reply to it, under every strategy."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, Budget, Decision, StopReason, tool
from retinue.core.protocols import Strategy
from retinue.core.values import Capabilities, Reply
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import PlanExec, React, ReactJson, SelfAsk, ToolCalling, UnreadableReply, simple
from retinue.strategies.parsing.final_answer import answer_of
from retinue.strategies.parsing.react_text import parse
from retinue.strategies.planexec import Planner


@tool(effects="read")
def search(query: str) -> str:
    """Search an encyclopedia."""
    return "a page"


def own_parse(text: str) -> AgentAction | AgentFinish:
    return parse(text, [search]).decision


def strict_parse(text: str) -> AgentAction | AgentFinish:
    if text.startswith("!"):
        return AgentFinish({"output": text[1:]}, text)
    raise UnreadableReply("begin with !")


def own(parser: Any) -> Strategy:
    return simple("own", prompt=lambda inputs: f"{inputs['input']}\n", parse=parser)


STRATEGIES: dict[str, Strategy] = {
    "react": React(),
    "react_json": ReactJson(),
    "tool_calling": ToolCalling(),
    "self_ask": SelfAsk(),
    "own": own(own_parse),
    "own, strict": own(strict_parse),
    "planexec": PlanExec(),
    "planexec, of calls": PlanExec(ToolCalling()),
    "humanInLoopPlanExec": PlanExec(approve=True),
    "planner": Planner(),
}
THOUGHT = "I need to look at one more page."
ACTING = {
    "an action": f"{THOUGHT}\nAction: search\nAction Input: b",
    "on one line": f"{THOUGHT} Action: search Action Input: b",
    "a call": f"{THOUGHT}\nAction: search[b]",
    "without its input": f"{THOUGHT}\nAction: search",
    "input begun": f"{THOUGHT}\nAction: search\nAction Input:",
    "bold": f"{THOUGHT}\n**Action:** search\n**Action Input:** b",
    "as a tool": f"{THOUGHT}\nTool: search\nTool Input: b",
    "with a thought": f"Thought: {THOUGHT}\nAction: search\nAction Input: b",
    "made up to the end": f"{THOUGHT}\nAction: search\nAction Input: b\nObservation: x\nFinal Answer: y",
    "OPEA's": f'{THOUGHT}\nTOOL CALL: {{"tool": "search", "args": {{"query": "b"}}}}',
    "OPEA's, cut": f'{THOUGHT}\nTOOL CALL: {{"tool": "search", "args": {{"que',
    "tagged": f'{THOUGHT}\n<tool_call>\n{{"name": "search", "arguments": {{"query": "b"}}}}\n</tool_call>',
    "tagged, cut": f'{THOUGHT}\n<tool_call>\n{{"name": "search", "argu',
    "a function": f"{THOUGHT}\n<function=search><parameter=query>b</parameter></function>",
    "JSON": '{"name": "search", "arguments": {"query": "b"}}',
    "JSON after words": f'{THOUGHT}\n{{"action": "search", "action_input": "b"}}',
    "fenced": f'{THOUGHT}\n```json\n{{"action": "search", "action_input": "b"}}\n```',
}
OF_ITS_OWN: dict[str, list[str | Reply]] = {
    "react": [f"{THOUGHT}\nAction:", f"{THOUGHT}\nAction: sear", f"Thought: {THOUGHT}", f"{THOUGHT}\nAction: Google\n"],
    "self_ask": [f"{THOUGHT}\nFollow up: b", f"{THOUGHT} Follow up [search]: b", f"{THOUGHT}\nFollow up:"],
    "react_json": ['{"actions": [{"action": "search", "arguments": {"query": "b"}}]}', '{"actions": [{"action": "sea'],
    "tool_calling": [Reply(THOUGHT, calls=(AgentAction("search", {"query": "b"}),))],
    "own": [],
    "own, strict": [],
    "planexec": [f"{THOUGHT}\nAction:", f"Thought: {THOUGHT}"],
    "planexec, of calls": [],
    "humanInLoopPlanExec": [],
    "planner": [],
}
CASES = [
    *((name, reply) for name in STRATEGIES for reply in ACTING.values()),
    *((name, reply) for name, replies in OF_ITS_OWN.items() for reply in replies),
]


def closing_with(name: str, reply: str | Reply, **options: Any) -> Any:
    """A run whose only reply is the one to the closing question."""
    agent = Agent(
        Said([reply], Capabilities(calls_tools=True)),
        [search],
        strategy=STRATEGIES[name],
        budget=Budget(steps=1),
        human=lambda action, problem: Decision("approve"),
        **options,
    )
    return agent.run("Which page?")


@pytest.mark.parametrize(("name", "reply"), CASES, ids=[f"{name}-{reply!r:.90}" for name, reply in CASES])
def test_a_thought_before_an_action_is_no_answer(name: str, reply: str | Reply) -> None:
    for options in ({}, {"answer": {"type": "string"}}):
        result = closing_with(name, reply, **options)
        assert (result.text, result.stop_reason) == ("", StopReason.MAX_ITERATION_EXCEEDED)


def test_nor_is_it_one_where_a_schema_takes_any_text() -> None:
    schema = {"type": "string", "minLength": 9}
    model = Said(["Final Answer: Paris", *[f"{THOUGHT}\nAction: search\nAction Input: b"] * 3])
    result = Agent(model, [search], answer=schema).run("Which page?")
    assert (result.text, result.best_answer, result.stop_reason) == ("", "Paris", StopReason.INVALID_ANSWER)


ANSWERING = {
    "plain": (" Paris", "Paris"),
    "over lines": ("Paris.\nIt has a tower.", "Paris.\nIt has a tower."),
    "a heading": ("Recommended action: wait.", "Recommended action: wait."),
    "JSON that is none": ('Send {"id": 3} to it.', 'Send {"id": 3} to it.'),
    "a tool's name": ("A search found Paris.", "A search found Paris."),
}


@pytest.mark.matrix
@pytest.mark.parametrize("said", ANSWERING.values(), ids=ANSWERING)
@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "react_json"])
def test_words_without_an_action_are_the_answer(name: str, said: tuple[str, str]) -> None:
    result = closing_with(name, said[0])
    assert (result.answer, result.stop_reason) == (said[1], StopReason.ANSWER)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final Answer: Paris\nAction: search\nAction Input: b", "Paris"),
        ("Thought: I know\nFinal Answer: Paris\nAction: search", "Paris"),
        ("Thought: I know,\nor so it seems.\nFinal Answer: Paris", "Paris"),
        ("Action: Finish[Paris]", "Paris"),
        ("Paris\n\nQuestion: more?\nThought: hm\nAction: search\nAction Input: b", "Paris"),
        ("Paris\nThought: hm\nAction: search\nAction Input: b", "Paris"),
        ("Paris\nAction: None", "Paris"),
        ("Paris. Thought: I know. Action: None. Action Input: None. Observation: None.", "Paris."),
        ("Thoughtful people\nlive there", "Thoughtful people\nlive there"),
    ],
)
def test_an_answer_that_comes_before_what_is_made_up_stays(text: str, answer: str) -> None:
    assert answer_of(text, [search]).output == answer


@pytest.mark.parametrize("name", ["react", "self_ask"])
def test_what_the_run_had_by_then_stays_its_best(name: str) -> None:
    first = {"react": " A page may say.\nAction: search\nAction Input: a\n", "self_ask": " Yes.\nFollow up: a\n"}[name]
    last = {"react": f"{THOUGHT}\nAction: search\nAction Input: b", "self_ask": f"{THOUGHT}\nFollow up: b"}[name]
    model = Said([first, first.replace(": a", ": c"), last])
    result = Agent(model, [search], strategy=name, budget=Budget(steps=3)).run("Which page?")
    assert (result.answer, result.stop_reason) == ("", StopReason.MAX_ITERATION_EXCEEDED)
    assert result.best_answer == {"react": "A page may say.", "self_ask": "a page"}[name]
