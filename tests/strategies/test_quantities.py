"""Numbers, dates and units as texts state them."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from retinue.strategies.facts.quantities import (
    Unreadable,
    convert_quantity,
    find_quantities,
    format_date,
    format_number,
    number_in,
    parse_date,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Its width is 315 centimetres.", ["315 centimetres"]),
        ("It covers 1,240 square kilometres and is 9.5 m deep.", ["1,240 square kilometres", "9.5 m"]),
        ("1.2 million people, of whom 40% left in 1904, and 40% stayed", ["1.2 million", "40", "1904"]),
        ("-4 degrees, B12 and 3rd place", ["-4"]),
        ("nothing", []),
    ],
)
def test_numbers_come_with_their_units(text: str, found: list[str]) -> None:
    assert find_quantities(text) == found


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,681,160", 1681160), ("about 1.2 million people", 1.2e6), ("3 May 1751", 1751), ("-3.5 degrees", -3.5)],
)
def test_a_text_s_number_is_its_first_and_a_date_s_its_year(text: str, number: float) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    ("value", "question", "answer"),
    [
        ("315 centimetres", "What is the width of the painting in metres?", "3.15 metres"),
        ("165 minutes", "How many hours does the journey take?", "2.75 hours"),
        ("1.5 million hectares", "How many square kilometres does it cover?", "15000 square kilometres"),
        ("774 metres", "How long is the bridge in metres?", "774 metres"),
        ("774 metres", "How heavy is it in kilograms?", "774 metres"),
        ("774", "How long is the bridge in metres?", "774"),
        ("The Hidden Mask", "How long is it in metres?", "The Hidden Mask"),
    ],
)
def test_a_quantity_is_told_in_the_unit_that_is_asked_for(value: str, question: str, answer: str) -> None:
    assert convert_quantity(value, question) == answer


@given(st.dates(min_value=date(1000, 1, 1)))
def test_a_date_is_read_in_each_of_its_forms(when: date) -> None:
    month = when.strftime("%B")
    forms = [format_date(when), f"{month} {when.day}, {when.year}", when.isoformat()]
    assert [parse_date(f"On {form}, it rained.") for form in forms] == [when] * 3


@given(st.integers(-(10**9), 10**9) | st.decimals(-1000, 1000, places=3).map(float))
def test_a_number_survives_being_written(number: float) -> None:
    assert number_in(format_number(number)) == pytest.approx(number)


@given(st.text())
def test_any_text_has_a_number_and_a_date_or_says_that_it_has_none(text: str) -> None:
    for read in (number_in, parse_date):
        try:
            read(text)
        except Unreadable as error:
            assert str(error)  # noqa: PT017 -- either is right
    for value in find_quantities(text):
        number_in(value)
        convert_quantity(value, text)


@pytest.mark.parametrize("text", ["31 February 1900", "1900-13-01"])
def test_a_date_that_never_was_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_date(text)
