"""Worked examples: which of the tools' own a model is shown, and how those of two tools become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, ExampleCall, PromptModel, Tool, ToolExample, UsageError, tool
from retinue.components import SearchEngine, Wikipedia
from retinue.core.values import Capabilities
from retinue.run.handoff import handoff
from retinue.strategies.prompting.prompt_parts import choose_examples, format_examples
from retinue.tools import calculator, passages
from retinue.tools.calculator import calculate

ANSWERS = {
    "react": [" I know\nFinal Answer:", " so"],
    "react_json": ['{"scratchpad": {"thought": "t"}, "answer": "so"}'],
    "self_ask": [" No.\nSo the final answer is:", " so\n"],
}


def example(question: str, answer: str, given: Any = "x", follow_up: str = "") -> ToolExample:
    return ToolExample(question, (ExampleCall("I look.", given, f"It is {answer}."),), answer, follow_up=follow_up)


def tool_with(name: str, *examples: ToolExample) -> Tool:
    return Tool(name, lambda query: query, "Does something", examples=examples)


HEIGHT = example("How high is the mast?", "31 metres", "mast height")
SLOPE = example("How steep is the roof?", "9 degrees", "roof slope")
HALF = example("What is half of 31 metres?", "15.5 metres", "31 metres / 2", "What is half of it?")


def questions(*tools: Tool) -> list[str]:
    return [one.question for one in choose_examples(tools)]


@pytest.mark.parametrize("strategy", ANSWERS)
def test_a_users_tool_is_shown_with_its_example_whatever_it_is_called(strategy: str) -> None:
    @tool(effects="read", examples=(HEIGHT,))
    def zq7(query: str) -> str:
        """Does something."""
        return query

    model = Said(ANSWERS[strategy], Capabilities(constrains=True))
    Agent(model, [zq7], strategy=strategy).run("Why?")
    shown = model.asked[0].prompt.text
    for part in (HEIGHT.question, "zq7", "mast height", "It is 31 metres.", "31 metres"):
        assert part in shown


def test_the_example_of_a_tool_with_several_arguments_is_json() -> None:
    def weather(city: str, days: int) -> str:
        """Forecast the weather."""
        return city

    forecast = example("Does it rain in Ister?", "yes", {"city": "Ister", "days": 2})
    shown = format_examples([Tool("weather", weather, examples=(forecast,))])
    assert 'Action: weather\nAction Input: {"city": "Ister", "days": 2}\n' in shown


def test_an_example_that_goes_on_from_anothers_answer_is_one_with_it() -> None:
    for tools in ((tool_with("a", HEIGHT), tool_with("b", HALF)), (tool_with("b", HALF), tool_with("a", HEIGHT))):
        (one,) = choose_examples(tools)
        assert one.question == BOTH
        assert [(step.tool.name, step.tool_input) for step in one.steps] == [
            ("a", "mast height"),
            ("b", "31 metres / 2"),
        ]
        assert one.answer == "15.5 metres"


@pytest.mark.parametrize(
    "other",
    [
        example("What is half of 131 metres?", "65.5", "131 metres / 2", "What is half of it?"),  # another number
        example("What is half of 31 metres?", "15.5 metres", "31 metres / 2"),  # no question that goes on
    ],
)
def test_examples_that_do_not_go_on_from_each_other_stay_apart(other: ToolExample) -> None:
    assert questions(tool_with("a", HEIGHT), tool_with("b", other)) == [HEIGHT.question, other.question]


def test_a_tool_has_no_example_with_itself() -> None:
    assert questions(tool_with("a", HEIGHT, HALF)) == [HEIGHT.question]


WHY = example("Why?", "so")
BOTH = "How high is the mast? What is half of it?"


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ([(SLOPE, HEIGHT), (HALF,)], [SLOPE.question, BOTH]),
        ([(SLOPE, HEIGHT), (HALF,), (WHY,)], [WHY.question, BOTH]),
        ([(SLOPE,), (HEIGHT,), (HALF,)], [SLOPE.question, BOTH]),
        ([(SLOPE,), (), (HEIGHT,)], [SLOPE.question, HEIGHT.question]),
        ([(SLOPE,), (HEIGHT,), (WHY,)], [SLOPE.question, HEIGHT.question]),
        ([(), ()], []),
    ],
)
def test_at_most_two_examples_show_as_many_tools_as_they_can(
    own: Sequence[tuple[ToolExample, ...]], shown: list[str]
) -> None:
    assert questions(*(tool_with(f"tool{at}", *examples) for at, examples in enumerate(own))) == shown


def test_an_agent_as_a_tool_is_asked_the_whole_questions_of_its_own_tools_examples() -> None:
    model = PromptModel(script=["so"])
    height = Tool("archive", Agent(model, [tool_with("a", HEIGHT)], name="one"), "does things")
    half = Tool("maths", Agent(model, [tool_with("b", HALF)], name="two"), "does other things")
    shown = format_examples([height, half])
    assert "Action: archive\nAction Input: How high is the mast?\nObservation: 31 metres\n" in shown
    assert "Action: maths\nAction Input: What is half of 31 metres?\nObservation: 15.5 metres\n" in shown
    assert "mast height" not in shown


def test_an_agent_that_the_conversation_goes_to_is_not_shown_as_one_that_is_asked() -> None:
    other = Agent(PromptModel(script=["so"]), [tool_with("a", HEIGHT)], name="other")
    assert questions(handoff(other)) == []


def test_a_component_has_examples_that_an_option_replaces() -> None:
    engine = SearchEngine(api_key="k")
    assert Tool("Web", engine).examples == engine.tool_examples
    assert Tool("Web", engine, examples=(HEIGHT,)).examples == (HEIGHT,)


@pytest.mark.parametrize("wrong", [("How?",), (ToolExample("How?", (), "so"),)])
def test_what_is_no_example_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="tool a: examples: want a ToolExample with calls, not "):
        Tool("a", lambda query: query, examples=wrong)


# ── those of the tools that come along ───────────────────────────────────────────────────────────


@pytest.fixture
def search(tmp_path: Any) -> Tool:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}')
    return passages(tmp_path / "a.jsonl")


def searches(search: Tool) -> list[Tool]:
    return [search, Wikipedia().tools()[0], Tool("Web", SearchEngine(api_key="k"))]


def test_the_calculators_example_is_right() -> None:
    for one in calculator.examples:
        assert [calculate(str(call.tool_input)) for call in one.calls] == [call.observation for call in one.calls]
        assert one.answer == one.calls[-1].observation


def test_each_search_has_an_example_from_which_the_calculators_goes_on(search: Tool) -> None:
    for one in searches(search):
        last = choose_examples([one, calculator])[-1]
        assert [step.tool.name for step in last.steps] == [one.name, "Calculator"]


def test_examples_fit_the_tools_input_and_give_the_answer(search: Tool) -> None:
    for one in (*searches(search), calculator):
        for shown in one.examples:
            for call in shown.calls:
                one.signature.arguments(call.tool_input)
            assert shown.answer.split()[-1][:6] in shown.calls[-1].observation
