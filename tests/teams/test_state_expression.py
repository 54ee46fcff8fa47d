"""The language of expressions over fields: what it means, and that nothing else can be said in it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue.teams.selectors import ExpressionError, parse_expression

STATE = {"score": 7, "status": "open", "notes": ["a", "b"], "gate": {"decision": "reject"}, "done": False}


def value(text: str) -> Any:
    return parse_expression(text).evaluate(STATE)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("score >= 7", True),
        ("score == 7.0", True),
        ("score < -1.5", False),
        ("not done", True),
        ("not not done", False),
        ("status in ['open', 'new']", True),
        ('status not in ["open"]', False),
        ("'a' in notes and score > 3", True),
        ("done or score > 3 and status == 'closed'", False),
        ("(done or score > 3) and status == 'open'", True),
        ("gate.decision == 'reject'", True),
        ("gate.decision.deeper == null", True),
        ("missing", None),
        ("'a' in missing", False),
        ("'a' not in missing", True),
        ("[1, score] == [1, 7]", True),
        ("true and True", True),
        ("''", ""),
    ],
)
def test_expressions_mean_what_they_say(text: str, means: Any) -> None:
    assert value(text) == means


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the end at character 1: want a value"),
        ("score =7", "'=' at character 7: want '=='"),
        ("score > ", "the end at character 9: want a value"),
        ("1 < score < 9", "'<' at character 11: compare two values at a time"),
        ("score & 1", "'&' at character 7: want 'and'"),
        ("len(notes)", "'(' at character 4: want 'and', 'or' or the end"),
        ("status == 'open", "the closing quote is missing"),
        ("(score", "want ')'"),
        ("[1 2]", "want ','"),
        ("score not 3", "want 'in' after 'not'"),
        ("score + 1", "'+' at character 7: this has no meaning here"),
        ("(" * 40 + "1" + ")" * 40, "nested deeper than 30"),
        ("a " * 600, "1,200 characters"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(problem)):
        parse_expression(text)


def test_values_that_cannot_be_compared_are_named() -> None:
    with pytest.raises(ExpressionError, match="'open' < 3 cannot be compared"):
        value("status < 3")


def test_the_fields_that_are_read_are_known() -> None:
    assert parse_expression("a.b > 1 or not (c in [d, 'e'])").fields == ("a", "c", "d")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expression = parse_expression(text)
    except ExpressionError:
        return
    with suppress(ExpressionError):
        expression.evaluate(STATE)


VALUES = st.one_of(
    st.integers(-50, 50).map(str), st.sampled_from(["true", "false", "null", "score", "status", "'x'", "done"])
)
TREES = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or", "==", "!="]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda one: f"(not {one})"),
    ),
    max_leaves=12,
)
NAMES = {"true": True, "false": False, "null": None, **STATE}


@given(TREES)
def test_it_agrees_with_python(text: str) -> None:
    assert value(text) == eval(text, {"__builtins__": {}}, NAMES)  # noqa: S307 -- a text of our own making
