"""Plans as people and models write them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue.core.schema.patterns import print_regex
from retinue.core.values import Decision
from retinue.strategies.plan_text import (
    STEP_CHARS,
    Plan,
    UnreadablePlan,
    apply_decision,
    neutralize_line,
    plan_shape,
    read_plan,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": ["find a", "find b"]}',
        'Here it is:\n```json\n{"steps": ["find a", "find b"]}\n```\nGood luck!',
        '["find a", "find b"]',
        '{"plan": {"steps": ["find a", "find b"]}}',
        '{"steps": [{"id": "1", "step": "find a"}, {"id": "2", "step": "find b"}]}',
        'Sure! {"steps": ["find a", "find b", "find a", ""]}',
        "1. find a\n2. find b",
        "Plan:\n1. find a\n2. find b\n<END_OF_PLAN>\n3. forget it",
        "Plan: 1) find a\n2) find b\n\nThis will answer the question.",
        "I think about it.\n\n**Plan:**\n\nStep 1: find a\nStep 2: find b",
        "**Step 1:** find a\n**Step 2**: find b",
        "## Step 1 - find a\n## Step 2 - find b",
        "- find a\n- find b",
        "* **find a**\n* find b",
        "The plan:\nfind a\nfind b",
        '1. "find a"\n2. `find b`',
    ],
)
def test_a_plan_is_read_however_it_is_written(text: str) -> None:
    assert read_plan(text, 6) == Plan(("find a", "find b"))


def test_what_is_indented_belongs_to_the_step_above() -> None:
    assert read_plan("1. find a\n   - in the book\n   or elsewhere\n2. find b", 6).steps[0] == (
        "find a in the book or elsewhere"
    )


def test_quotes_within_a_step_stay() -> None:
    assert read_plan('1. find who wrote "Emma"', 6).steps == ('find who wrote "Emma"',)


@pytest.mark.parametrize("text", ["Final Answer: 4", "I know.\nFinal answer: 4", '{"steps": [], "answer": "4"}'])
def test_an_answer_instead_of_a_plan(text: str) -> None:
    assert read_plan(text, 6) == Plan(answer="4")


@pytest.mark.parametrize("text", ["", "Well.", "{}", '{"steps": []}', '{"steps": [', "1.\n2.", "Plan:", "[1, 2]"])
def test_what_is_no_plan_says_so(text: str) -> None:
    with pytest.raises(UnreadablePlan, match="there are no steps"):
        read_plan(text, 6)


def test_a_plan_that_is_too_long_keeps_its_steps_for_whoever_cuts_it() -> None:
    with pytest.raises(UnreadablePlan, match="3 steps, at most 2") as caught:
        read_plan("1. a\n2. b\n3. c", 2)
    assert caught.value.steps == ("a", "b", "c")


@given(st.text() | st.from_regex(r"(?:Plan:|\d\. |- |\{\"steps\": \[|\"a\"|\]|\}|\n|x){0,20}", fullmatch=True))
def test_any_text_is_a_plan_or_unreadable(text: str) -> None:
    try:
        plan = read_plan(text, 6)
    except UnreadablePlan:
        return
    assert bool(plan.steps) != bool(plan.answer)
    assert len(plan.steps) <= 6
    assert all(0 < len(step) <= STEP_CHARS and "\n" not in step for step in plan.steps)


@pytest.mark.parametrize(
    "text",
    [
        "1. " * 20_000,
        "*" * 60_000,
        "step " * 20_000,
        "[" * 60_000,
        '{"plan": ' * 20_000,
        "```" * 20_000,
        "plan " * 20_000,
    ],
)
def test_a_monstrous_text_is_read_in_no_time(text: str) -> None:
    with suppress(UnreadablePlan):
        read_plan(text, 6)


@given(st.data())
def test_what_a_model_is_held_to_can_be_read(data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(print_regex(plan_shape(2).pattern), re.ASCII), fullmatch=True))
    with suppress(UnreadablePlan):  # all its steps may be blank
        assert 1 <= len(read_plan(text, 2).steps) <= 2


@pytest.mark.parametrize("given_input", [None, {"steps": ["a"]}, {"steps": "a"}, "a", "1. a"])
def test_a_persons_plan(given_input: Any) -> None:
    assert apply_decision(Decision("edit", given_input), ("a",), 6) == ("a",)


@given(st.text())
def test_a_result_on_one_line_is_no_protocol(text: str) -> None:
    line = neutralize_line(f'{text}\nPlan: x\n1. y\n"steps": [1]\nNOT FOUND: z', 10_000)
    assert len(line.splitlines()) <= 1
    assert not any(mark in line for mark in ("Plan:", '"steps":', "FOUND:"))
