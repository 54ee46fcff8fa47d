"""Plans of steps: read, held to their pattern, and worked out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from retinue.core.schema.patterns import print_regex
from retinue.strategies.facts.quantities import Unreadable
from retinue.strategies.facts.question_plan import (
    KINDS,
    MOST,
    QuestionStep,
    build_plan_constraint,
    calculate_step,
    fill_expression,
    fill_references,
    is_sound,
    read_steps,
    split_list,
)

BRIDGE = "find: Who is the sculptor of The Iron Heron?\nfind: In which year was #1 born?\n\n"
QUESTION = "By how many percent is Tarn Dam wider than Marl Dam, if 2 feet are added to both?"


def test_a_plan_is_read() -> None:
    assert read_steps(BRIDGE) == (
        QuestionStep("find", "Who is the sculptor of The Iron Heron?"),
        QuestionStep("find", "In which year was #1 born?"),
    )


@pytest.mark.parametrize("text", ["", "find:", "no plan at all", "find: Who is #1?", "answer: #2"])
def test_what_is_no_plan_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read_steps(text)


def pattern_for(question: str) -> str:
    shape = build_plan_constraint(question)
    assert shape is not None
    return print_regex(shape.pattern)


@given(st.from_regex(re.compile(pattern_for(QUESTION)), fullmatch=True))
def test_a_plan_of_the_pattern_is_read_or_uses_what_is_not_there(text: str) -> None:
    try:
        steps = read_steps(text)
    except Unreadable as error:
        assert "not there yet" in str(error)  # noqa: PT017 -- either is right
    else:
        assert 1 <= len(steps) <= MOST


@pytest.mark.parametrize(
    ("question", "plan", "fits"),
    [
        (QUESTION, "find: How wide is it?\ncompute: (#1 + 2) / 100\n\n", True),
        (QUESTION, "find: How wide is it?\ncompute: #1 * 40\n\n", False),
        (QUESTION, "find: How wide is it?\nmost: #1 Tarn Dam, #2 Marl Dam\n\n", False),
        ("Which is wider, Tarn Dam or Marl Dam?", "find: A?\nfind: B?\nmost: #1 Tarn Dam, #2 Marl Dam\n\n", True),
        ("Which is wider, Tarn Dam or Marl Dam?", "find: A?\nfind: B?\ncompute: #1 - #2\n\n", False),
        ("What date was 12 days before the fire of Marl?", "find: When was it?\ndate: #1 - 12\n\n", True),
        ("What date was 12 days before the fire of Marl?", "find: When was it?\ndate: #1 - 14\n\n", False),
    ],
)
def test_a_plan_ends_with_what_is_asked_for_and_has_no_numbers_but_the_question_s(
    question: str, plan: str, fits: bool
) -> None:
    assert (re.fullmatch(pattern_for(question), plan) is not None) == fits


@pytest.mark.parametrize(
    "question", ["Who wrote Emma?", "On what date was Marl founded?", "In which year did Emma appear?"]
)
def test_a_question_that_no_operation_answers_needs_no_plan(question: str) -> None:
    assert build_plan_constraint(question) is None


@pytest.mark.parametrize(
    ("plan", "sound"),
    [
        ("find: How wide is Tarn Dam?\nfind: How wide is Marl Dam?\ncompute: #1 - #2", True),
        ("find: How wide is Tarn Dam?\nfind: How wide is it?\ncompute: #1 - #2", False),
        ("find: How wide is Tarn Dam?\nfind: How wide is Marl Dam?\ncompute: #1 - 2", False),
        ("find: How wide is Tarn Dam?\nfind: How wide is Tarn Dam?\ncompute: #1 - #2", False),
    ],
)
def test_a_sound_plan_has_the_question_s_names_and_uses_all_of_its_steps(plan: str, sound: bool) -> None:
    assert is_sound(read_steps(plan), QUESTION) == sound


VALUES = st.one_of(st.text(), st.from_regex(r"\A[\d,.; a-z-]*\Z"), st.just("9" * 400), st.just("31 February 1900"))
ROWS = st.builds("{}: {}".format, st.sampled_from(KINDS), st.from_regex(r"\A(#[0-9]|[ ,+<>-]|[0-9]{1,9}|[a-z])*\Z"))


@given(st.lists(ROWS, max_size=4).map("\n".join), st.lists(VALUES, min_size=9, max_size=9))
def test_any_text_is_a_plan_that_can_be_worked_out_or_is_unreadable(text: str, values: list[str]) -> None:
    try:
        for step in read_steps(text):
            fill_references(step.text, values)
            fill_expression(step.text, values)
            calculate_step(step, values)
    except Unreadable as error:
        assert str(error)  # noqa: PT017 -- either is right


@pytest.mark.parametrize(
    ("step", "values", "result"),
    [
        ("years: #1 to #2", ["3 May 1751", "2 May 1800"], "48"),
        ("years: #2 to #1", ["3 May 1751", "3 May 1800"], "49"),
        ("years: #1 to #2", ["1751", "1800"], "49"),
        ("days: #1 to #2", ["12 June 1884", "30 June 1884"], "18"),
        ("date: #1 + 40", ["13 February 1840"], "24 March 1840"),
        ("date: #1 - 1", ["March 1, 1900"], "28 February 1900"),
        ("most: #1 Abbey School, #2 #3", ["1751", "1800", "Cole School"], "Cole School"),
        ("earliest: #1 A, #2 B, #3 C", ["3 May 1751", "2 May 1751", "1 June 1751"], "B"),
        ("count: #1 > 40", ["12 hectares; 41 hectares; 1,000 hectares"], "2"),
        ("count: #1, #2 < 1900", ["3 May 1751", "2 May 1900"], "1"),
        ("count: #1", ["The Pale Sea, Dunes and The Long Road"], "3"),
    ],
)
def test_steps_without_a_model(step: str, values: list[str], result: str) -> None:
    kind, _, text = step.partition(": ")
    assert calculate_step(QuestionStep(kind, text), values) == result


def test_arithmetic_takes_the_numbers_of_values_and_sums_of_several() -> None:
    values = ["1.2 million people", "315 centimetres", "10; 20 metres; 30"]
    assert fill_expression("(#1 - #2) / #3", values) == "(1200000 - 315) / (10 + 20 + 30)"


def test_a_list_has_parts() -> None:
    assert split_list("Ottery, Marl, and Upper Marl and Cole") == ["Ottery", "Marl", "Upper Marl", "Cole"]
