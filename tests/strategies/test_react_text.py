"""`parse_self_ask`: every careless form that is understood, what is not, and the inverse of `format_decision`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retinue import StopReason, Tool
from retinue.core.values import ToolInput
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import self_ask
from retinue.strategies.parsing.actions import UnreadableReply, read_input
from retinue.strategies.parsing.final_answer import answer_of
from retinue.strategies.parsing.react_text import format_decision, parse
from retinue.strategies.plan_text import read_plan
from sampling import examples


def weather(city: str, days: int = 3) -> str:
    """Forecast the weather."""
    return f"{days} sunny days in {city}"


def now() -> str:
    """The time."""
    return "noon"


SEARCH = Tool("Search", lambda query: query, "Search for facts")
WEATHER = Tool("weather", weather)
TOOLS = (SEARCH, WEATHER, Tool("now", now), Tool("stock_price", lambda query: query, "Prices"))
MISSING_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
MISSING_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"


def decided(text: str) -> tuple[str, ToolInput]:
    decision = parse(text, TOOLS).decision
    if isinstance(decision, AgentAction):
        return decision.tool, decision.tool_input
    return "answer", decision.output


LINES: dict[str, tuple[str, tuple[str, Any]]] = {
    "plain": ("Thought: hm\nAction: Search\nAction Input: x", ("Search", "x")),
    "continuing a thought": (" I should look\nAction: Search\nAction Input: x\n", ("Search", "x")),
    "numbered": ("Thought 1: hm\nAction 1: Search\nAction Input 1: x", ("Search", "x")),
    "numbered call": ("Thought 1: hm\nAction 1: Search[x]", ("Search", "x")),
    "call with a full stop": ("Action: Search[x].", ("Search", "x")),
    "call with parentheses": ('Action: Search("x")', ("Search", "x")),
    "brackets in a call": ("Action: Search[a [b] c]", ("Search", "a [b] c")),
    "finish call": ("Action 3: Finish[Paris]", ("answer", "Paris")),
    "finish call, lower case": ("action 3: finish[Paris]", ("answer", "Paris")),
    "finish as a tool": ("Action: Finish\nAction Input: Paris", ("answer", "Paris")),
    "final answer as a tool": ("Action: Final Answer\nAction Input: Paris", ("answer", "Paris")),
    "haystack's markers": ("Tool: Search\nTool Input: x", ("Search", "x")),
    "mixed markers": ("Action: Search\nInput: x", ("Search", "x")),
    "lower case": ("thought: hm\naction: search\naction input: x", ("Search", "x")),
    "upper case": ("ACTION: SEARCH\nACTION INPUT: X", ("Search", "X")),
    "underscores": ("Action: Search\nAction_Input: x", ("Search", "x")),
    "bold markers": ("**Action:** Search\n**Action Input:** x", ("Search", "x")),
    "bold words": ("**Action**: `Search`\n**Action Input**: x", ("Search", "x")),
    "heading": ("### Final Answer: Paris", ("answer", "Paris")),
    "quote": ("> Action: Search[x]", ("Search", "x")),
    "full-width colon": ("Final Answer：Paris", ("answer", "Paris")),
    "brackets around a name": ("Action: [Search]\nAction Input: x", ("Search", "x")),
    "quotes around a name": ('Action: "Search"\nAction Input: x', ("Search", "x")),
    "spaces in a name": ("Action: Stock Price\nAction Input: AAPL", ("stock_price", "AAPL")),
    "unknown name, as written": ("Action: Google It\nAction Input: x", ("Google It", "x")),
    "unknown call": ("Action: Google[x]", ("Google", "x")),
    "all on one line": ("Thought: hm Action: Search Action Input: x", ("Search", "x")),
    "several lines": ("Action: Search\nAction Input: a\nb\n\nc\n", ("Search", "a\nb\n\nc")),
    "json over lines": (
        'Action: weather\nAction Input: {"city": "P",\n "days": 2}',
        ("weather", {"city": "P", "days": 2}),
    ),
    "json in a fence": ('Action: weather\nAction Input: ```json\n{"city": "P"}\n```', ("weather", {"city": "P"})),
    "text in a fence": ("Action: Search\nAction Input:\n```\nx y\n```", ("Search", "x y")),
    "json for a text": ('Action: Search\nAction Input: {"query": "x"}', ("Search", "x")),
    "other json for a text": ('Action: Search\nAction Input: ["x"]', ("Search", '["x"]')),
    "text for json, as written": ("Action: weather\nAction Input: Paris", ("weather", "Paris")),
    "quotes around the whole": ('Action: Search\nAction Input: "x y"', ("Search", "x y")),
    "quotes inside": ('Action: Search\nAction Input: "a" OR "b"', ("Search", '"a" OR "b"')),
    "markers inside an input": (
        "Action: Search\nAction Input: Tool: saw\nInput: wood",
        ("Search", "Tool: saw\nInput: wood"),
    ),
    "invented observation": ("Action: Search\nAction Input: x\nObservation: y\nFinal Answer: z", ("Search", "x")),
    "invented thought": ("Action: Search\nAction Input: x\n\nThought: y", ("Search", "x")),
    "two actions": ("Action 1: Search[x]\nAction 2: Search[y]", ("Search", "x")),
    "action, then answer": ("Action: Search\nAction Input: x\nFinal Answer: y", ("Search", "x")),
    "answer, then action": ("Final Answer: y\nAction: Search\nAction Input: x", ("answer", "y")),
    "no action, then answer": ("Action: None\nFinal Answer: y", ("answer", "y")),
    "no action and no input": ("Action: N/A\nAction Input: None\nFinal Answer: y", ("answer", "y")),
    "answer over lines": ("Final Answer: a\nb\n\nc", ("answer", "a\nb\n\nc")),
    "answer, invented question": ("Final Answer: Paris\n\nQuestion: more?\nThought: hm", ("answer", "Paris")),
    "answer, invented thought": ("Final Answer: Paris\nThought: hm", ("answer", "Paris")),
    "answer, thought on its line": ("Final Answer: Paris Thought: hm", ("answer", "Paris")),
    "no input needed": ("Action: now", ("now", "")),
    "no input given": ("Action: now\nAction Input:", ("now", "")),
    "no input in a call": ("Action: now[]", ("now", "")),
}
JSON: dict[str, tuple[str, tuple[str, Any]]] = {
    "seed 004": ('{"action": "Search", "action_input": "x"}', ("Search", "x")),
    "arguments": ('{"tool": "Search", "args": {"query": "x"}}', ("Search", "x")),
    "tool call": ('{"name": "weather", "arguments": {"city": "P"}}', ("weather", {"city": "P"})),
    "arguments as text": ('{"name": "weather", "arguments": "{\\"city\\": \\"P\\"}"}', ("weather", {"city": "P"})),
    "list": ('[{"action": "Search", "action_input": "x"}]', ("Search", "x")),
    "pretty": ('{\n  "action": "Search",\n  "action_input": "x"\n}\n', ("Search", "x")),
    "final answer": ('{"action": "Final Answer", "action_input": "x"}', ("answer", "x")),
    "final_answer": ('{"final_answer": "x"}', ("answer", "x")),
    "a number": ('{"answer": 4}', ("answer", "4")),
    "constrained action": ('{"thought": "t", "decision": {"action": "Search", "action_input": "x"}}', ("Search", "x")),
    "constrained answer": ('{"thought": "t", "decision": {"final_answer": "x"}}', ("answer", "x")),
    "no input": ('{"action": "now"}', ("now", {})),
    "null input": ('{"action": "now", "action_input": null}', ("now", {})),
    "fence": ('I look.\n```json\n{"action": "Search", "action_input": "x"}\n```', ("Search", "x")),
    "fence after a thought": ('Thought: hm\n```\n{"action": "Search", "action_input": "x"}\n```', ("Search", "x")),
    "fence as the action": ('Action:\n```json\n{"action": "Search", "action_input": "x"}\n```', ("Search", "x")),
    "json as the action": ('Action: {"action": "Search", "action_input": "x"}\nObservation: y', ("Search", "x")),
}


@pytest.mark.parametrize(("text", "decision"), LINES.values(), ids=LINES)
def test_careless_lines_are_understood(text: str, decision: tuple[str, Any]) -> None:
    assert decided(text) == decision


@pytest.mark.parametrize(("text", "decision"), JSON.values(), ids=JSON)
def test_json_instead_of_lines_is_understood(text: str, decision: tuple[str, Any]) -> None:
    assert decided(text) == decision


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", MISSING_ACTION),
        ("I think it is Paris", MISSING_ACTION),
        ("Action: None", MISSING_ACTION),
        ("Action Input: x", MISSING_ACTION),
        ("Observation: y\nAction: Search[x]", MISSING_ACTION),
        ('{"answer": ""}', MISSING_ACTION),
        ('{"action": "Search"}', MISSING_ACTION),
        ("Action: Search", MISSING_INPUT),
        ("Action: Search[x", MISSING_INPUT),
        ("Action: Google It", MISSING_INPUT),
        ("Action: Search\nThought: hm\nAction Input: x", MISSING_INPUT),
        ("Final Answer:", "Invalid Format: no answer after 'Final Answer:'"),
        ("Final Answer:\nObservation: y", "Invalid Format: no answer after 'Final Answer:'"),
        ("Action: Finish[]", "Invalid Format: no answer after 'Final Answer:'"),
    ],
)
def test_a_reply_without_a_decision_is_unreadable_and_says_what_is_missing(text: str, problem: str) -> None:
    with pytest.raises(UnreadableReply) as caught:
        parse(text, TOOLS)
    assert str(caught.value) == problem


def test_only_the_part_that_decides_is_kept_as_the_log() -> None:
    parsed = parse(" hm\nAction: Search\nAction Input: x\nObservation: y", TOOLS)
    assert parsed.decision.log == " hm\nAction: Search\nAction Input: x\n"
    assert parsed.length == len(parsed.decision.log)


def test_seed_004s_phrase_means_that_no_tool_fits() -> None:
    decision = parse('Final Answer: "No appropriate tool available".', TOOLS).decision
    assert isinstance(decision, AgentFinish)
    assert decision.reason is StopReason.NO_APPROPRIATE_TOOL


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" Paris\n", "Paris"),
        ("Final Answer: Paris", "Paris"),
        ("Thought: I know\nFinal Answer: Paris", "Paris"),
        ("Paris\nObservation: made up", "Paris"),
        ('{"final_answer": "Paris"}', "Paris"),
        ("", ""),
        ("\n", ""),
        ("Action: Search\nAction Input: x", ""),
        ('{"action": "Search", "action_input": "x"}', ""),
    ],
)
def test_a_reply_to_final_answer_is_the_answer_and_an_action_is_none(text: str, answer: str) -> None:
    assert answer_of(text).output == answer


# ── properties ───────────────────────────────────────────────────────────────────────────────────

FRAGMENTS = (
    "Thought: Action: Search Action Input: Observation: Final Answer: Question: Tool: Input: None Finish [x] Foo ( ) "
    '``` ```json { } [ ] "action" : , "action_input" "answer" "decision" null 1e999 \\ " ** ` 1 _ now weather'
).split(" ")
GARBLED = st.lists(st.sampled_from([*FRAGMENTS, " ", "\n", "Final Answer:", "Action Input:"]) | st.text(max_size=5))


@settings(max_examples=examples(300))
@given(st.text() | GARBLED.map("".join) | GARBLED.map(" ".join))
def test_any_text_is_a_decision_or_unreadable(text: str) -> None:
    try:
        decision, length = parse(text, TOOLS)
    except UnreadableReply:
        return
    assert 0 < length <= len(text)
    if isinstance(decision, AgentAction):
        assert decision.tool in {tool.name for tool in TOOLS} or decision.tool in text
    else:
        assert decision.output.strip()


@settings(max_examples=examples(200))
@given(st.text() | GARBLED.map("".join))
def test_any_reply_to_final_answer_is_an_answer_or_none(text: str) -> None:
    assert isinstance(answer_of(text), AgentFinish)


@pytest.mark.parametrize("depth", [100, 985, 990, 2000, 20_000])
def test_deeply_nested_json_is_unreadable_at_worst(depth: int) -> None:
    with suppress(UnreadableReply):
        assert decided('{"action": "weather", "action_input": ' + "[" * depth + "]" * depth + "}")[0] == "weather"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "begun", ["Action", "Action: x", "Final Answer: x", "Thought", "```", "Final", "thought\n", ""]
)
@pytest.mark.parametrize("run", [" ", "\n", " \n", "\t", "*", "_", "> ", "1", "a ", "```a"])
def test_long_runs_of_one_thing_are_read_at_once(begun: str, run: str) -> None:
    with suppress(UnreadableReply):  # with backtracking, some of these take hours
        parse(begun + run * 20_000 + "y", TOOLS)
    answer_of(begun + run * 20_000 + "y")


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=60).filter(
    lambda text: read_input(text, SEARCH) == text  # without quotes, fences or space around the whole
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(200))
@given(LINE)
def test_a_written_action_on_one_line_reads_back(text: str) -> None:
    assert decided(format_decision((AgentAction("Search", text),)).text) == ("Search", text)


@settings(max_examples=examples(150))
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_a_written_action_with_values_reads_back(values: dict[str, Any]) -> None:
    assert decided(format_decision((AgentAction("weather", values),)).text) == ("weather", values)


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from("Paris in 1984, or . - 47%".split(" ")), min_size=1).map(" ".join))
def test_a_written_answer_reads_back(text: str) -> None:
    assert decided(format_decision(AgentFinish({"output": text})).text) == ("answer", text)


BEGUN = ["2.42. ```json", "2.42.\n```", "2.42.```json```", "2.42.\n\n```json\n```\n", "2.42.\n```json ", "2.42."]


@pytest.mark.parametrize("said", BEGUN)
def test_a_code_block_begun_after_the_answer_is_no_part_of_it(said: str) -> None:
    assert answer_of(f" {said}").output == "2.42."
    assert decided(f"Final Answer: {said}") == ("answer", "2.42.")
    assert decided(f"Final Answer: {said}\nThought: so") == ("answer", "2.42.")
    asked = self_ask.parse_self_ask(f"So the final answer is: {said}", TOOLS).decision
    assert isinstance(asked, AgentFinish)
    assert asked.output == "2.42."
    assert read_plan(f"Final Answer: {said}", 3).answer == "2.42."


def test_one_begun_in_any_case_is_no_part_of_it_either() -> None:
    assert answer_of("``` 2.42\n```json").output == "``` 2.42"


@pytest.mark.parametrize("said", ["```sh\nls\n```", "Run\n```sh\nls\n```", "Run ```ls```", "```", "`x`", "a ```` b"])
def test_a_code_block_that_is_the_answer_stays(said: str) -> None:
    assert answer_of(f" {said}\n").output == said
