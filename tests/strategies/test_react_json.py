"""`react_json`: seed 004's contract, and its replies however carelessly they are written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fakes.said import Said
from retinue import Agent, Budget, ExampleCall, StopReason, Tool, ToolExample
from retinue.core.prompt import Ask
from retinue.core.protocols import Task
from retinue.core.schema.patterns import build_json_pattern, print_regex
from retinue.core.values import AgentAction, Capabilities
from retinue.extend import AgentFinish
from retinue.strategies import ReactJson
from retinue.strategies.parsing.actions import UnreadableReply
from retinue.strategies.parsing.json_reply import read_reply
from retinue.strategies.parsing.lenient_json import Truncated, find_values
from retinue.strategies.react_json import SEED_BUDGET, outcome
from sampling import examples


def weather(city: str, days: int = 3) -> str:
    """Forecast the weather."""
    return f"{days} sunny days in {city}"


def now() -> str:
    """The time."""
    return "noon"


def wikipedia(input: str) -> str:  # noqa: A002 -- as seed 004 calls it
    """An encyclopedia."""
    return f"all about {input}"


SEARCH = Tool("wikipedia", wikipedia, effects="read")
TOOLS = (SEARCH, Tool("weather", weather), Tool("now", now))
PAD = {"thought": "t", "action": "a", "observations": "o"}


def run(*replies: str, budget: Budget = SEED_BUDGET) -> Any:
    model = Said(replies)
    return Agent(model, TOOLS, strategy="react_json", budget=budget).run("Why?"), model


# ── the contract ─────────────────────────────────────────────────────────────────────────────────


def test_the_next_input_is_the_former_the_reply_as_written_and_each_result_once() -> None:
    first = '{"actions": [{"action": "wikipedia",  "arguments": {"input": "x"}}, {"action": "now", "arguments": {}}]}'
    result, model = run(first, '{"answer": "because"}')
    former, told = (request.prompt.text for request in model.asked)
    responses = {
        "action_responses": [
            {"action": "wikipedia", "arguments": {"input": "x"}, "action_response": "all about x"},
            {"action": "now", "arguments": {}, "action_response": "noon"},
        ]
    }
    assert told == f"{former}\n{first}\nTool responses: \n{json.dumps(responses)}\n Your response: "
    assert told.count("all about x") == 1
    assert outcome(result) == ("ANSWER", told, "because")


def test_the_prompt_is_seed_004s() -> None:
    _, model = run('{"answer": "x"}')
    text = model.asked[0].prompt.text
    assert "Do not use your internal knowledge. You MUST validate the answer using tools" in text
    assert text.endswith("JSON formats.\nQuestion:\nWhy?\nTool Responses:\nYour response:\n")
    listed = json.loads(text.partition("Tools Available:\n")[2].partition("\nGuidelines")[0])
    assert listed[0]["name"] == "wikipedia"
    assert list(listed[0]["arguments"][0]) == ["input"]
    assert list(listed[1]["arguments"][0]) == ["city"]
    assert {"name", "description", "arguments", "response"} == set(listed[0])
    assert '\n    {\n        "name"' in text


def test_the_seeds_limits() -> None:
    assert (SEED_BUDGET.steps, SEED_BUDGET.seconds) == (4, 20)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"answer": "x", "scratchpad": PAD}, "ANSWER"),
        ({"answer": "No appropriate tool available", "actions": [], "scratchpad": PAD}, "NO_APPROPRIATE_TOOL"),
        ({"answer": "No appropriate tool available"}, "NO_APPROPRIATE_TOOL"),
        ({"actions": [], "scratchpad": PAD}, "NO_APPROPRIATE_TOOL"),
        ({"scratchpad": PAD}, "NO_APPROPRIATE_TOOL"),
        ({"answer": "No appropriate tool available.", "actions": [{"action": "none"}]}, "NO_APPROPRIATE_TOOL"),
    ],
)
def test_how_a_reply_ends_the_run(reply: dict[str, Any], reason: str) -> None:
    result, model = run(json.dumps(reply))
    assert outcome(result) == (reason, model.asked[-1].prompt.text, "x" if reason == "ANSWER" else {})


def test_alternates_are_run() -> None:
    first = {"answer": "No appropriate tool available", "actions": [{"action": "now", "arguments": {}}]}
    result, _ = run(json.dumps(first), '{"answer": "noon"}')
    assert (result.answer, len(result.steps)) == ("noon", 1)


def test_out_of_iterations_there_is_no_answer() -> None:
    act = '{"actions": [{"action": "wikipedia", "arguments": {"input": "%d"}}]}'
    result, model = run(*(act % at for at in range(4)))
    assert outcome(result) == ("MAX_ITERATION_EXCEEDED", model.asked[-1].prompt.text, {})
    assert len(model.asked) == 4


# ── careless replies ─────────────────────────────────────────────────────────────────────────────

X = ("wikipedia", {"input": "x"})
CALL = '{"action": "wikipedia", "arguments": {"input": "x"}}'
CARELESS: dict[str, tuple[str, list[tuple[str, Any]] | str]] = {
    "fence": (f'```json\n{{"actions": [{CALL}]}}\n```', [X]),
    "prose around": (f'Sure [as you wish]:\n{{"actions": [{CALL}]}}\nI hope {{this}} helps', [X]),
    "one action, no list": (f'{{"actions": {CALL}}}', [X]),
    "a bare action": (CALL, [X]),
    "a bare list": (f"[{CALL}, {CALL}]", [X, X]),
    "other keys": ('{"actions": [{"tool": "wikipedia", "action_input": {"input": "x"}}]}', [X]),
    "name and args": ('{"actions": [{"name": "wikipedia", "args": {"input": "x"}}]}', [X]),
    "function": ('{"tool_calls": [{"function": {"name": "wikipedia", "arguments": "x"}}]}', [("wikipedia", "x")]),
    "a text as input": ('{"actions": [{"action": "wikipedia", "arguments": "x"}]}', [("wikipedia", "x")]),
    "json in a text": ('{"action": "weather", "arguments": "{\\"city\\": \\"P\\"}"}', [("weather", {"city": "P"})]),
    "the whole in a text": (json.dumps(f'{{"actions": [{CALL}]}}'), [X]),
    "trailing commas": ('{"actions": [{"action": "wikipedia", "arguments": {"input": "x",},},],}', [X]),
    "missing comma": (f'{{"actions": [{CALL}] "scratchpad": {{}}}}', [X]),
    "single quotes": ("{'actions': [{'action': 'wikipedia', 'arguments': {'input': 'x'}}]}", [X]),
    "python": ('{"answer": None, "actions": [{"action": "now", "arguments": {}}]}', [("now", {})]),
    "line break in a text": ('{"answer": "a\nb"}', "a\nb"),
    "nan": ('{"action": "weather", "arguments": {"city": NaN}}', [("weather", {"city": "NaN"})]),
    "end missing after the actions": (f'{{"actions": [{CALL}], "scratchpad": {{"thought": "I was', [X]),
    "brackets missing": (f'{{"actions": [{CALL}', [X]),
    "invented": (f'{{"actions": [{CALL}]}}\nTool responses: \n{{"action_responses": []}}\n{{"answer": "y"}}', [X]),
    "no input needed": ('{"actions": [{"action": "now"}]}', [("now", {})]),
    "name written otherwise": ('{"actions": [{"action": "Wikipedia", "arguments": {"input": "x"}}]}', [X]),
    "unknown": ('{"actions": [{"action": "google", "arguments": {"q": "x"}}]}', [("google", {"q": "x"})]),
    "nothing and something": (f'{{"actions": [{{"action": "None"}}, {CALL}]}}', [X]),
    "actions and answer": (f'{{"answer": "y", "actions": [{CALL}]}}', [X]),
    "a number": ('{"answer": 47.5}', "47.5"),
    "a list": ('{"answer": ["a", 1]}', '["a", 1]'),
    "an object": ('{"answer": {"a": 1}}', '{"a": 1}'),
    "true": ('{"answer": true}', "true"),
    "answering as an action": ('{"action": "Final Answer", "action_input": "y"}', "y"),
    "another object first": ('{"thought": "hm"}\n{"answer": "y"}', "y"),
    "constrained": ('{"scratchpad": {"thought": "t"}, "question": "Why?", "answer": "y"}', "y"),
}


@pytest.mark.parametrize(("text", "expected"), CARELESS.values(), ids=CARELESS)
def test_careless_replies_are_understood(text: str, expected: list[tuple[str, Any]] | str) -> None:
    reply = read_reply(text, TOOLS)
    if isinstance(expected, str):
        assert (reply.answer, reply.actions) == (expected, ())
    else:
        assert [(action.tool, action.tool_input) for action in reply.actions] == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I think it is Paris.",
        "{}",
        '{"name": "wikipedia"}',
        '{"name": "Bob", "age": 47}',
        '{"actions": [{"action": "wikipedia"}]}',
        '{"actions": [{"action": 7, "arguments": {}}]}',
        '{"actions": [{"action": "wikipedia", "arguments": {"input": "x"}}, {"act',
        '{"actions": [{"action": "wikipedia", "arguments": {"input": "x"}',
        '{"action": "wikipedia", "arguments": {"input": "x"}',
        '{"actions": [{"action": "wikipedia", "arguments": {"input": "x',
        '{"actions": [{"action": "weather", "arguments": {"city": "P", "days": 1',
        '{"answer": "Par',
        '{"answer": 4',
        '{"answer": ""}',
        "[1, 2]",
        "[" * 2000,
        json.dumps({"actions": [{"action": "now", "arguments": {}}] * 9}),
    ],
)
def test_what_is_not_complete_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableReply):
        read_reply(text, TOOLS)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"answer": "x"}', "x"),
        ("x", "x"),
        ('{"answer": "what there is', "what there is"),
        ('{"actions": [{"action": "now", "arguments": {}}]}', ""),
        ("{", ""),
    ],
)
def test_the_reply_to_the_closing_question(reply: str, answer: str) -> None:
    result, _ = run(reply, budget=Budget(1))
    assert (result.answer, bool(result.answer)) == (answer, result.stop_reason is StopReason.ANSWER)


# ── what a model that is held to a pattern can write ─────────────────────────────────────────────

SLOW = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))


def first(question: str = 'Why "so"?\n¿Qué?') -> Ask:
    request = next(ReactJson(answer_chars=20)(Task(question, TOOLS, constrained=True)))
    assert isinstance(request, Ask)
    return request


def shape(request: Ask) -> str:
    assert request.constraint is not None
    return print_regex(request.constraint.pattern)


@SLOW
@given(st.from_regex(shape(first()), fullmatch=True))
def test_any_reply_in_shape_is_read_whole(text: str) -> None:
    reply = read_reply(text, TOOLS)
    values = json.loads(text)
    for action, written in zip(reply.actions, values.get("actions", ()), strict=True):
        assert (action.tool, action.tool_input) == (written["action"], written["arguments"])
        tool = next(tool for tool in TOOLS if tool.name == action.tool)
        assert tool.signature.arguments(action.tool_input) is not None
    assert reply.actions or (reply.answer or "").strip() == values["answer"].strip() or not values["answer"].strip()


def test_before_an_answer_the_question_is_put_once_more() -> None:
    answer = '{"scratchpad": {"thought": "t"}, "question": "Why \\"so\\"?\\n¿Qué?", "answer": "y"}'
    assert re.fullmatch(shape(first()), answer)
    assert not re.fullmatch(shape(first()), '{"scratchpad": {"thought": "t"}, "answer": "y"}')
    assert re.fullmatch(shape(first("x" * 301)), '{"scratchpad": {"thought": "t"}, "answer": "y"}')


def test_the_schema_says_the_same() -> None:
    constraint = first().constraint
    assert constraint is not None
    actions = [{"action": "weather", "arguments": {"city": "P", "days": 1}}]
    for values in ({"actions": actions, "answer": None}, {"actions": [], "answer": "y"}):
        text = json.dumps({"scratchpad": {"thought": "t"}, **values})
        assert re.fullmatch(print_regex(build_json_pattern(constraint.schema)), text)
        assert read_reply(text, TOOLS).answer == values["answer"]


def test_a_model_held_to_a_pattern_is_shown_an_example_of_its_tool() -> None:
    calls = (ExampleCall("I look.", "Rook Mill", "Rook Mill grinds oats."),)
    mill = replace(SEARCH, examples=(ToolExample("What does Rook Mill grind?", calls, "oats"),))
    model = Said(['{"scratchpad": {"thought": "t"}, "answer": "x"}'], Capabilities(constrains=True))
    Agent(model, [mill, *TOOLS[1:]], strategy="react_json").run("Why?")
    text = model.asked[0].prompt.text
    assert '"actions": [{"action": "wikipedia", "arguments": {"input": "Rook Mill"}}]' in text
    assert '"question": "What does Rook Mill grind?", "answer": "oats"' in text


# ── properties ───────────────────────────────────────────────────────────────────────────────────

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)
PIECES = (
    '{ } [ ] , : " \' \\ \n ``` "actions" "action" "answer" "arguments" "now" "scratchpad" null NaN 1e999 - 0 \\ud800 x'
).split(" ")
GARBLED = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


@settings(max_examples=examples(200))
@given(OBJECTS, st.sampled_from(["", "Here:\n", "```json\n"]))
def test_json_is_read_as_json(values: dict[str, Any], before: str) -> None:
    (one, *_) = find_values(before + json.dumps(values))
    assert one.value == values


@settings(max_examples=examples(200))
@given(OBJECTS, st.data())
def test_what_is_cut_is_marked_and_never_completed(values: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(values)
    at = data.draw(st.integers(1, len(text) - 1))
    (one, *_) = find_values(text[:at])
    assert isinstance(one.value, Truncated)
    for key, value in one.value.value.items():
        assert isinstance(value, Truncated) or value == values[key]


@settings(max_examples=examples(400))
@given(st.text() | GARBLED)
def test_any_text_is_read_or_unreadable(text: str) -> None:
    try:
        reply = read_reply(text, TOOLS)
    except UnreadableReply:
        return
    assert reply.actions or reply.answer


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(st.sampled_from(["weather", "wikipedia"]), OBJECTS), min_size=1, max_size=4))
def test_what_is_written_reads_back(calls: list[tuple[str, dict[str, Any]]]) -> None:
    written = first().write(tuple(AgentAction(tool, values) for tool, values in calls))
    read = read_reply(written.text, TOOLS).actions
    assert [(action.tool, action.tool_input) for action in read] == calls
    assert read_reply(first().write(AgentFinish({"output": "x"})).text, TOOLS).answer == "x"
