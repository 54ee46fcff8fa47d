"""`build_step_constraint`: whatever a model held to it can write is a decision, and an input that its tool takes."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from pydantic import BaseModel, Field

from retinue import Tool
from retinue.core.schema.patterns import Pattern, build_json_pattern, print_regex
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies.parsing.final_answer import answer_of
from retinue.strategies.parsing.react_text import parse
from retinue.strategies.prompting.constraints import answer_shape, build_step_constraint

SLOW = settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
MARKER = re.compile(r"[\s>*_#`-]*(thought|action|tool|observation|final[ _]*answer|question)", re.IGNORECASE)


class Place(BaseModel):
    city: Annotated[str, Field(max_length=12)]
    country: Annotated[str, Field(max_length=2)] | None = None


def book(
    place: Place,
    nights: int,
    board: Literal["none", "half", "full"],
    quiet: bool = False,
    extras: Annotated[list[Annotated[str, Field(max_length=6)]], Field(max_length=2)] = [],  # noqa: B006
    budget: float | None = None,
) -> str:
    """Book a room."""
    return ""


def now() -> str:
    """The time."""
    return "noon"


SEARCH = Tool("Search", lambda query: query, "Search")
NOW = Tool("now", now)
BOOK = Tool("book", book)
TOOLS = (SEARCH, NOW, BOOK)


def texts(pattern: Pattern) -> st.SearchStrategy[str]:
    return st.from_regex(print_regex(pattern), fullmatch=True)


def step(*tools: Tool) -> st.SearchStrategy[str]:
    return texts(build_step_constraint(tools, 20, answer_apart=False).pattern)


@SLOW
@given(step(SEARCH, NOW))
def test_any_step_in_shape_is_a_decision_and_its_input_is_valid(text: str) -> None:
    decision = parse(text, TOOLS).decision
    if isinstance(decision, AgentAction):
        assert decision.tool in ("Search", "now")
        tool = {"Search": SEARCH, "now": NOW}[decision.tool]
        assert set(tool.signature.arguments(decision.tool_input)) == set(tool.signature.parameters["properties"])
    else:
        assert decision.output


@SLOW
@given(texts(build_json_pattern(BOOK.signature.parameters, max_string=8)))
def test_any_input_in_shape_is_valid_for_a_tool_with_several_arguments(text: str) -> None:
    decision = parse(f" I book\nAction: book\nAction Input: {text}\n", TOOLS).decision
    assert isinstance(decision, AgentAction)
    assert decision.tool_input == json.loads(text)
    arguments = BOOK.signature.arguments(decision.tool_input)
    assert isinstance(arguments["place"], Place)
    assert arguments["board"] in ("none", "half", "full")


@SLOW
@given(texts(answer_shape(30).pattern))
def test_any_answer_in_shape_is_an_answer(text: str) -> None:
    assume(not MARKER.match(text))
    assert isinstance(answer_of(text), AgentFinish)


@pytest.mark.parametrize(
    "text",
    [
        " hm\nAction: Search\nAction Input: Jane Campion\n",
        " hm\nAction: now\nAction Input: {}\n",
        ' hm\nAction: book\nAction Input: {"place": {"city": "Rome"}, "nights": 2, "board": "half"}\n',
        ' hm\nAction: book\nAction Input: {"place": {"city": "R", "country": null}, "nights": 2, "board": "none", '
        '"quiet": true, "extras": ["tv", "tea"], "budget": 9.5}\n',
        " hm\nFinal Answer: Paris\n",
    ],
)
def test_what_a_model_should_write_is_in_shape(text: str) -> None:
    shape = build_step_constraint(TOOLS, 80, answer_apart=False)
    assert re.fullmatch(print_regex(shape.pattern), text)
    assert parse(text, TOOLS).decision


@pytest.mark.parametrize(
    "text",
    [
        " hm\nAction: Google\nAction Input: x\n",
        " hm\nAction: Search\nAction Input: \n",
        " hm\nAction: Search\nAction Input: two\nlines\n",
        ' hm\nAction: now\nAction Input: {"zone": "UTC"}\n',
        ' hm\nAction: book\nAction Input: {"nights": 2}\n',
        ' hm\nAction: book\nAction Input: {"place": {"city": "Rome"}, "nights": 2, "board": "all"}\n',
        " hm\nFinal Answer: " + "x" * 81 + "\n",
        "\nFinal Answer: no thought\n",
    ],
)
def test_what_a_model_should_not_write_is_not_in_shape(text: str) -> None:
    assert not re.fullmatch(print_regex(build_step_constraint(TOOLS, 80, answer_apart=False).pattern), text)


def test_an_answer_asked_for_apart_ends_the_step_at_its_marker() -> None:
    shape = print_regex(build_step_constraint(TOOLS, 80, answer_apart=True).pattern)
    assert re.fullmatch(shape, " I know\nFinal Answer:")
    assert not re.fullmatch(shape, " I know\nFinal Answer: Paris\n")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"action": "Search", "action_input": "x"}, "Search"),
        ({"action": "now", "action_input": {}}, "now"),
        ({"action": "book", "action_input": {"place": {"city": "R"}, "nights": 1, "board": "full"}}, "book"),
        ({"final_answer": "Paris"}, "Paris"),
    ],
)
def test_the_schema_for_engines_without_patterns_says_the_same(decision: Any, expected: str) -> None:
    schema = build_step_constraint(TOOLS, 80, answer_apart=False).schema
    text = json.dumps({"thought": "hm", "decision": decision})
    assert re.fullmatch(print_regex(build_json_pattern(schema)), text)
    read = parse(text, TOOLS).decision
    assert (read.tool if isinstance(read, AgentAction) else read.output) == expected


def test_tools_with_models_of_the_same_name_keep_their_own_in_the_schema() -> None:
    def visit(place: Place) -> str:
        return ""

    tools = (BOOK, Tool("visit", visit))
    schema = build_step_constraint(tools, 80, answer_apart=False).schema
    assert set(schema["$defs"]) == {"book-Place", "visit-Place"}
    assert not re.findall(r'"#/\$defs/(?!(?:book|visit)-Place)', json.dumps(schema))
