"""Filters on files' attributes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter, ValidationError

from retinue.server.files.schemas import ComparisonFilter, Filter
from retinue.server.files.search import matches, validate_filter
from retinue.server.http.api_errors import ApiError

FILTER: TypeAdapter[Filter] = TypeAdapter(Filter)
VALUES = st.text(max_size=3) | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
KEYS = st.sampled_from(["a", "b", "'; DROP TABLE files; --", '$."a"'])
ATTRIBUTES = st.dictionaries(KEYS, VALUES)
ORDERED = st.sampled_from(["gt", "gte", "lt", "lte"])
COMPARISONS = st.fixed_dictionaries(
    {"type": st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), "key": KEYS, "value": VALUES}
) | st.fixed_dictionaries({"type": st.sampled_from(["in", "nin"]), "key": KEYS, "value": st.lists(VALUES, max_size=3)})
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["and", "or"]), "filters": st.lists(inner, max_size=3)}
    ),
    max_leaves=8,
)
OPPOSITES = {"eq": "ne", "ne": "eq", "in": "nin", "nin": "in", "and": "or", "or": "and"}


def is_held(said: Any, attributes: Any) -> bool:
    return matches(validate_filter(FILTER.validate_python(said)), attributes)


def negated(said: Any) -> Any:
    """The filter that says the opposite, as far as there is one: by De Morgan."""
    opposite = {**said, "type": OPPOSITES[said["type"]]}
    return opposite | ({"filters": [negated(one) for one in said["filters"]]} if "filters" in said else {})


def has_order(said: Any) -> bool:
    return any(map(has_order, said["filters"])) if "filters" in said else said["type"] not in OPPOSITES


@given(FILTERS, ATTRIBUTES)
def test_a_filter_holds_or_its_opposite_does(said: Any, attributes: Any) -> None:
    held = is_held(said, attributes)
    if not has_order(said):
        assert is_held(negated(said), attributes) is not held


@given(st.lists(FILTERS, max_size=3), ATTRIBUTES)
def test_several_hold_as_and_and_or_say(several: list[Any], attributes: Any) -> None:
    each = [is_held(one, attributes) for one in several]
    assert is_held({"type": "and", "filters": several}, attributes) is all(each)
    assert is_held({"type": "or", "filters": several}, attributes) is any(each)


@given(ORDERED, VALUES, VALUES)
def test_only_like_is_compared_with_like(order: str, found: Any, value: Any) -> None:
    held = is_held({"type": order, "key": "a", "value": value}, {"a": found})
    like = isinstance(found, str) == isinstance(value, str) and bool not in (type(found), type(value))
    expected = like and {"gt": lambda: found > value, "gte": lambda: found >= value, "lt": lambda: found < value,
                         "lte": lambda: found <= value}[order]()  # fmt: skip
    assert held is expected
    assert not is_held({"type": order, "key": "b", "value": value}, {"a": found})


@given(VALUES, st.lists(VALUES, max_size=4))
def test_one_of_several_is_equal_to_one(found: Any, values: list[Any]) -> None:
    one_by_one = any(is_held({"type": "eq", "key": "a", "value": one}, {"a": found}) for one in values)
    assert is_held({"type": "in", "key": "a", "value": values}, {"a": found}) is one_by_one


@pytest.mark.parametrize(
    ("found", "value", "same"), [(1, True, False), (1, 1.0, True), ("1", 1, False), (0, False, False)]
)
def test_what_is_equal(found: Any, value: Any, same: bool) -> None:
    assert matches(ComparisonFilter(type="eq", key="a", value=value), {"a": found}) is same


JSON = st.recursive(
    st.none() | VALUES | st.sampled_from(["and", "or", "eq", "in"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "key", "value", "filters"]), inner, max_size=4)
    ),
)


@given(JSON)
def test_whatever_comes_is_a_filter_or_refused(said: Any) -> None:
    with suppress(ValidationError, ApiError):
        validate_filter(FILTER.validate_python(said))


def test_one_that_is_too_much_work() -> None:
    with pytest.raises(ApiError, match="more than 256 values"):
        is_held({"type": "or", "filters": [{"type": "in", "key": "a", "value": list(range(100))}] * 6}, {})
