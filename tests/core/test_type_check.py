"""Is a value what a hint says?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypedDict, TypeVar

import pytest
from pydantic import BaseModel

from retinue import Document
from retinue._internal.type_check import describe_mismatch

T = TypeVar("T")


class Shape(BaseModel):
    sides: int


class Row(TypedDict):
    name: str


class Quacks(Protocol):
    def quack(self) -> None: ...


class Opaque:
    __slots__ = ()


@dataclass
class Bag:
    thing: Opaque


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("x", str),
        (1, float),
        (None, str | None),
        ([Document("a")], list[Document]),
        ((Document("a"),), Sequence[Document]),
        ({"a": [1]}, dict[str, list[int]]),
        ({"a": 1}, Mapping[str, Any]),
        ("a", Literal["a", "b"]),
        (Shape(sides=3), Shape),
        ([Shape(sides=3)], list[Shape]),
        ({"name": "x"}, Row),
        (Opaque(), Quacks),
        ([Opaque()], list[Opaque]),
        ([Bag(Opaque())], list[Bag]),
        (len, Callable[..., Any]),
        (object(), T),
        (3, object),
        (3, Any),
    ],
)
def test_what_fits(value: Any, hint: Any) -> None:
    assert describe_mismatch(value, hint) == ""


@pytest.mark.parametrize(
    ("value", "hint", "problem"),
    [
        ("3", int, "must be int, not str '3'"),
        (3, str | None, "must be str | None, not int 3"),
        (["a", 3], list[str], "must be list[str], not int 3 (at 1)"),
        ({"sides": 3}, Shape, "must be Shape, not dict {'sides': 3}"),
        ([{"sides": 3}], list[Shape], "must be list[Shape], not dict {'sides': 3} (at 0)"),
        ([], Row, "must be Row, not list []"),
        ({"a": [1, "2"]}, dict[str, list[int]], "must be dict[str, list[int]], not str '2' (at a.1)"),
        ({1: "a"}, dict[str, str], "must be dict[str, str], not int 1 (at 1)"),
        (["a", 3], list[str] | None, "must be list[str] | None, not int 3 (at 1)"),
        ((1, "a"), tuple[int, int], "must be tuple[int, int], not str 'a' (at 1)"),
        (("a",), tuple[int, ...], "must be tuple[int, ...], not str 'a' (at 0)"),
        ({"x"}, set[int], "must be set[int], not str 'x' (at 0)"),
        (3, Annotated[str, "a note"], "not int 3"),
        ("c", Literal["a", "b"], "must be Literal['a', 'b'], not str 'c'"),
        ("x" * 100, int, "…"),
    ],
)
def test_what_does_not_fit_and_how_that_is_said(value: Any, hint: Any, problem: str) -> None:
    assert problem in describe_mismatch(value, hint)


def test_nothing_is_used_up_by_looking() -> None:
    numbers = iter([1, 2])
    assert describe_mismatch(numbers, Iterable[int]) == ""
    assert list(numbers) == [1, 2]
