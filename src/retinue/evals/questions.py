"""A dataset's question, and what counts as its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Number:
    """An accepted number, with a tolerance of `within`."""

    number: float
    within: float = 0.0

    def __str__(self) -> str:
        return f"{self.number:.12g}{f' ± {self.within:.12g}' if self.within else ''}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The accepted values of an argument; an `optional` one may also be left out."""

    values: tuple[Any, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that an agent should make: the tool's name, and its arguments, of which each is a value or `OneOf`."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a dataset.

    Args:
        answers: Texts and numbers, of which any is right.
        unanswerable: The right answer says that the sources do not state it; `answers` is empty.
        evidence: The titles of the passages that are needed.
        tags: What kind of question it is, for figures by tag.
        rivals: Texts that a right answer does not contain, such as the other one of two that are compared.
        calls: Calls that should be made.
        functions: Functions that are offered for this question alone: `name`, `description`, and `parameters` as a JSON
            Schema. They do nothing.
    """

    id: str
    question: str
    answers: tuple[str | Number, ...] = ()
    unanswerable: bool = False
    evidence: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    calls: tuple[ExpectedCall, ...] = ()
    functions: tuple[Mapping[str, Any], ...] = ()

    @property
    def gold(self) -> str:
        """What is right, for people."""
        if self.unanswerable:
            return "(not stated)"
        calls = (f"{one.name}({_join_values(one.arguments, '=')})" for one in self.calls)
        return " | ".join(map(str, self.answers)) or "; ".join(calls)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions, and the `passages` in which they can be looked up, if the dataset has such a file."""

    name: str
    questions: tuple[Question, ...]
    passages: Path | None = None


def _join_values(values: Mapping[str, Any], sign: str) -> str:
    return ", ".join(f"{name}{sign}{_describe_value(one)}" for name, one in values.items())


def _describe_value(value: Any) -> str:
    match value:
        case OneOf(values, optional):
            return " or ".join([*map(_describe_value, values), *["nothing"] * optional])
        case Mapping():
            return f"{{{_join_values(value, ': ')}}}"
        case list():
            return f"[{', '.join(map(_describe_value, value))}]"
    return repr(value)
