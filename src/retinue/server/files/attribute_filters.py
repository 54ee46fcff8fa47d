"""Filters on file attributes, evaluated in Python: no part of a filter becomes query text."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from ..http.api_errors import invalid_value
from ..http.common_schemas import Wire

Value: TypeAlias = str | bool | int | float
_COMPARISONS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
_COMPOUNDS = ("and", "or")
_NAMES = ", ".join(f"'{name}'" for name in (*_COMPARISONS, *_COMPOUNDS))
_MAX_VALUES = 256  # per filter, since every file of a store is compared
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class ComparisonFilter(Wire):
    """Compares an attribute with a value, or for `in` and `nin` with several."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, Field(min_length=1, max_length=64)]
    value: Value | list[Value]

    @property
    def values(self) -> list[Value]:
        """The values to compare with."""
        return self.value if isinstance(self.value, list) else [self.value]


class CompoundFilter(Wire):
    """Combines filters: all must match, or any."""

    type: Literal["and", "or"]
    filters: list[Filter]


def _kind(given: Any) -> str | None:
    name = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    return "<compound>" if name in _COMPOUNDS else "<comparison>" if name in _COMPARISONS else None


Filter: TypeAlias = Annotated[
    Annotated[ComparisonFilter, Tag("<comparison>")] | Annotated[CompoundFilter, Tag("<compound>")],
    Discriminator(_kind, "by_type", _NAMES),
]
CompoundFilter.model_rebuild()


def validate_filter(given: Filter) -> Filter:
    """Return `given` if it is valid. Raises `ApiError` if a value has the wrong form, or if there are too many
    values."""
    weight = 0
    left: list[Filter] = [given]
    while left:
        one = left.pop()
        weight += 1
        if isinstance(one, CompoundFilter):
            left += one.filters
            continue
        weight += len(one.values)
        if isinstance(one.value, list) != (one.type in ("in", "nin")):
            raise invalid_value(
                "filters", f"'{one.type}' needs {'an array' if one.type in ('in', 'nin') else 'one value'}"
            )
    if weight > 2 * _MAX_VALUES:
        raise invalid_value("filters", f"it compares with more than {_MAX_VALUES} values")
    return given


def matches(wanted: Filter, attributes: Mapping[str, Any]) -> bool:
    """Whether a file with these attributes matches. Text is compared with text only, numbers with numbers. A missing
    attribute equals nothing, and is neither more nor less than any value."""
    if isinstance(wanted, CompoundFilter):
        return (all if wanted.type == "and" else any)(matches(one, attributes) for one in wanted.filters)
    found = attributes.get(wanted.key)
    match wanted.type:
        case "eq" | "in":
            return any(_same(found, one) for one in wanted.values)
        case "ne" | "nin":
            return not any(_same(found, one) for one in wanted.values)
    (value,) = wanted.values
    return _comparable(found, value) and _ORDERS[wanted.type](found, value)


def _same(found: Any, value: Value) -> bool:
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)


def _comparable(found: Any, value: Value) -> bool:
    if isinstance(found, bool) or isinstance(value, bool):
        return False
    return isinstance(found, str) == isinstance(value, str) and isinstance(found, str | int | float)
