"""`self_ask`: the format of Press et al., with one tool and with several."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from fakes.said import Said
from retinue import Agent, Budget, ExampleCall, StopReason, Tool, ToolExample
from retinue.core.prompt import Ask
from retinue.core.protocols import Task
from retinue.core.schema.patterns import print_regex
from retinue.core.values import Capabilities
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import SelfAsk
from retinue.strategies.parsing.actions import UnreadableReply
from retinue.strategies.self_ask import parse_self_ask

WAY = ToolExample("How far is it?", (ExampleCall("I look.", "way", "5 miles"),), "5 miles")
SEARCH = Tool("Search", lambda query: "74 years", "Search an encyclopedia", effects="read", examples=(WAY,))
WEATHER = Tool("weather", lambda city, days: "sun", "Forecast")
PAPER = """
Question: Who lived longer?
Are follow up questions needed here: Yes.
Follow up: How old was Muhammad Ali when he died?
Intermediate answer: He was 74 years old.
Follow up: How old was Alan Turing when he died?
Intermediate answer: He was 41 years old.
So the final answer is: Muhammad Ali"""
ONE, TWO = (SEARCH,), (SEARCH, WEATHER)


def read(text: str, tools: tuple[Tool, ...] = TWO) -> list[tuple[str, Any]] | str:
    decision = parse_self_ask(text, tools).decision
    if isinstance(decision, AgentFinish):
        return decision.output
    return [(action.tool, action.tool_input) for action in decision]


def test_the_transcript_is_the_papers() -> None:
    replies = [
        " Yes.\nFollow up: How old was Muhammad Ali when he died?\n",
        "Follow up: How old was Alan Turing when he died?\n",
        "So the final answer is: Muhammad Ali",
    ]
    model = Said(replies)
    ages = {"How old was Muhammad Ali when he died?": "74", "How old was Alan Turing when he died?": "41"}
    tool = Tool("Search", lambda query: f"He was {ages[query]} years old.", effects="read")
    result = Agent(model, [tool], strategy="self_ask").run("Who lived longer?")
    assert result.answer == "Muhammad Ali"
    assert result.transcript.endswith(PAPER)
    assert model.asked[0].stop == ("Intermediate answer:",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Yes.\nFollow up: x?\n", [("Search", "x?")]),
        (" Yes.\nFollow up [Search]: x?\n", [("Search", "x?")]),
        ('Follow up [weather]: {"city": "P", "days": 1}', [("weather", {"city": "P", "days": 1})]),
        ("Follow-up question: x", [("Search", "x")]),
        ("**Follow up (search):** x", [("Search", "x")]),
        ("Follow up 2: x", [("Search", "x")]),
        ("Yes. Follow up: x", [("Search", "x")]),
        ("Follow up [google]: x", [("google", "x")]),
        ("Follow up: x\nFollow up: y", [("Search", "x"), ("Search", "y")]),
        ("Follow up: x\nIntermediate answer: made up\nSo the final answer is: z", [("Search", "x")]),
        ("Follow up: x\nSo the final answer is: z", [("Search", "x")]),
        (" No.\nSo the final answer is: Paris", "Paris"),
        ("So the final answer is: Paris\nQuestion: and?", "Paris"),
        ("Final answer: Paris", "Paris"),
        ("No. The final answer is: Paris", "Paris"),
        ('{"decision": {"action": "Search", "action_input": "x"}}', [("Search", "x")]),
        ('{"decision": {"final_answer": "x"}}', "x"),
    ],
)
def test_careless_replies_are_understood(text: str, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text", ["", " Yes.", "Paris", "Follow up:", "So the final answer is:", "Intermediate answer: x"]
)
def test_what_is_not_complete_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableReply):
        read(text)


def test_a_single_tool_may_take_json() -> None:
    assert read('Follow up: {"city": "P", "days": 1}', (WEATHER,)) == [("weather", {"city": "P", "days": 1})]


def test_a_model_held_to_the_form_is_asked_for_the_answer_right_after_the_question() -> None:
    model = Said([" Yes.\nFollow up [Search]: x\n", "So the final answer is:", " 74\n"], Capabilities(constrains=True))
    result = Agent(model, TWO, strategy="self_ask").run("How old?")
    assert result.answer == "74"
    assert result.transcript.endswith("Intermediate answer: 74 years\nQuestion: How old?\nSo the final answer is: 74\n")
    assert "Question: How far is it?\nAre follow up questions needed here: Yes.\nFollow up [Search]: way\n" in (
        result.transcript
    )


def test_the_closing_question_and_what_is_no_answer_to_it() -> None:
    for reply, answer in ((" 74", "74"), ("So the final answer is: 74\nQuestion: x", "74"), ("Follow up: x", "")):
        result = Agent(Said([reply]), TWO, strategy="self_ask", budget=Budget(1)).run("How old?")
        assert result.answer == answer
        assert (result.stop_reason is StopReason.ANSWER) is bool(answer)


# ── shapes and properties ────────────────────────────────────────────────────────────────────────


def asks(tools: tuple[Tool, ...]) -> tuple[Ask, Ask]:
    """The first request and the second."""
    from retinue.core.values import Observation, Reply

    flow = SelfAsk()(Task("Why?", tools, constrained=True))
    first = next(flow)
    assert isinstance(first, Ask)
    flow.send(first.write((AgentAction("Search", "x"),)))
    second = flow.send((Observation("", "y"),))
    assert isinstance(second, Ask)
    assert isinstance(first.write(AgentFinish({})), Reply)
    return first, second


def shape(request: Ask) -> str:
    assert request.constraint is not None
    return print_regex(request.constraint.pattern)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.one_of(*(st.from_regex(shape(request), fullmatch=True) for request in (*asks(ONE), *asks(TWO)))))
def test_any_reply_in_shape_is_read(text: str) -> None:
    assume(not text.endswith("So the final answer is:"))
    written = text.removeprefix(" Yes.\n").removeprefix("Follow up").partition(": ")[2].strip()
    decision = parse_self_ask(text, TWO).decision
    assert isinstance(decision, tuple)
    assert not isinstance(decision[0].tool_input, str) or decision[0].tool_input.strip("\"'`") in written


def test_what_a_model_should_write_is_in_shape() -> None:
    first, second = asks(TWO)
    assert re.fullmatch(shape(first), " Yes.\nFollow up [Search]: x\n")
    assert re.fullmatch(shape(first), " No.\nSo the final answer is:")
    assert re.fullmatch(shape(second), 'Follow up [weather]: {"city": "P", "days": "2"}\n')
    assert re.fullmatch(shape(second), "So the final answer is:")
    assert not re.fullmatch(shape(second), "Follow up [google]: x\n")
    assert re.fullmatch(shape(asks(ONE)[1]), "Follow up: x\n")


PIECES = (
    "Follow up : [Search] [weather] Intermediate answer So the final answer is: Question: Yes. { } \n ** 1 ( ) x"
).split(" ")


@settings(max_examples=300)
@given(st.text() | st.lists(st.sampled_from([*PIECES, "\n", "Follow up: "]) | st.text(max_size=4)).map(" ".join))
def test_any_text_is_a_decision_or_unreadable(text: str) -> None:
    with suppress(UnreadableReply):
        assert parse_self_ask(text, TWO).decision
