"""What a question lays down beside what it asks: units, and decimal places."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retinue.strategies.facts.quantities import convert_quantity, convert_question, separate_terms


@pytest.mark.parametrize(
    ("question", "plain", "units", "digits"),
    [
        ("How deep is it, if a fathom is 1.8 metres?", "How deep is it?", ["fathom", "metres", "metre"], None),
        ("A mile is 1.6 kilometres. How long is it?", "How long is it?", ["mile", "kilometres", "kilometre"], None),
        ("How long is it? Round to two decimal places.", "How long is it?", [], 2),
        ("How long is it, rounded to the nearest whole number?", "How long is it?", [], 0),
        ("Who dug it?", "Who dug it?", [], None),
        ("", "", [], None),
    ],
)
def test_what_a_question_lays_down_is_no_part_of_what_it_asks(
    question: str, plain: str, units: list[str], digits: int | None
) -> None:
    terms = separate_terms(question)
    assert (terms.question, list(terms.units), terms.digits) == (plain, units, digits)


@given(
    st.text()
    | st.from_regex(r"(If )?an? [a-z]+ is [0-9.,]+ [a-z]+, .*Round to (one|two|[0-9]+) decimals?", fullmatch=True)
)
def test_any_text_has_terms(text: str) -> None:
    terms = separate_terms(text)
    assert terms.round_value("1,234.5678 metres").endswith("metres")
    assert all(size >= 0 for size in terms.units.values())


@given(
    st.sampled_from(["120", "120 metres", "120 ells", "3 thousand", "wide", ""]),
    st.from_regex(
        r"\AAn ell is (0|1|0\.0|1\.5|12|1,000) (ells?|metres?|feet|em)\. How many (ells|metres|feet) is it\?\Z"
    ),
)
def test_any_quantity_is_told_in_units_of_any_size(value: str, question: str) -> None:
    terms = separate_terms(question)
    assert convert_question(terms.question, terms.units).endswith("?")
    assert convert_quantity(value, terms.question, terms.units) or not value


def test_a_unit_of_the_same_size_changes_nothing() -> None:
    terms = separate_terms("If an ell is 1 metre, how many ells wide is Tarn Dam?")
    assert convert_quantity("120", terms.question, terms.units) == "120"
