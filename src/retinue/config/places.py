"""Positions in a file, and the problems found there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from .._internal.message_text import nearest as nearest, suggestion
from ..errors import DataError

Path = tuple[str | int, ...]  # the keys and indexes that lead to a value
MAX_FOUND = 100  # problems per file


class Place(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """A problem at a position in a file. As text: `file:line:column: message`."""

    file: str
    line: int
    column: int
    message: str

    @property
    def warning(self) -> bool:
        """Whether the file can still be used."""
        return False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {'warning: ' * self.warning}{self.message}"


class Warned(Problem):
    """A problem that does not prevent the use of the file."""

    __slots__ = ()

    @property
    def warning(self) -> bool:
        """Always true."""
        return True


class Found(NamedTuple):
    """A problem without its position yet: it concerns the value at `path`, or that value's key."""

    path: Path
    message: str
    at_key: bool = False
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file: plain dicts, lists and scalars, with the position of every key and value.

    `whole` means that the file was read to its end, so `value` is complete.
    """

    file: str
    value: Any = None
    keys: Mapping[Path, Place] = field(default_factory=dict)
    values: Mapping[Path, Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    whole: bool = True

    def problem(self, found: Found) -> Problem:
        """Return `found` with its position, or that of the nearest enclosing value."""
        place = self.place(found.path, at_key=found.at_key)
        return (Warned if found.warning else Problem)(self.file, *place, found.message)

    def place(self, path: Path, *, at_key: bool = False) -> Place:
        """Return the position of the value at `path`, or of its key."""
        if at_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))

    def under(self, path: Path) -> Source:
        """Return the value at `path` as a source of its own."""
        value = self.value
        for part in path:
            value = value[part]
        size = len(path)
        keys = {one[size:]: place for one, place in self.keys.items() if one[:size] == path}
        values = {one[size:]: place for one, place in self.values.items() if one[:size] == path}
        return Source(self.file, value, keys, values)

    def placed(self, found: Iterable[Found]) -> list[Problem]:
        """Return the syntax problems and those in `found`, in order of position. Later ones at the position of a syntax
        problem are dropped."""
        taken = {(problem.line, problem.column) for problem in self.problems}
        new = {self.problem(one) for one in islice(found, MAX_FOUND)}
        problems = sorted([*self.problems, *(problem for problem in new if problem[1:3] not in taken)])
        if len(new) == MAX_FOUND:
            problems.append(problems[-1]._replace(message=f"stopped after {MAX_FOUND} problems"))
        return problems


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a source, of any shape; no method raises."""

    value: Any
    path: Path = ()

    def at(self, key: str) -> Node:
        """Return the value under `key`; `None` if there is none."""
        return Node(self.value.get(key) if isinstance(self.value, dict) else None, (*self.path, key))

    def __iter__(self) -> Iterator[Node]:
        pairs: Iterable[tuple[Any, Any]] = ()
        if isinstance(self.value, dict):
            pairs = self.value.items()
        elif isinstance(self.value, list):
            pairs = enumerate(self.value)
        return (Node(value, (*self.path, key)) for key, value in pairs)

    @property
    def text(self) -> str:
        """The value if it is text, otherwise an empty string."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def name(self) -> str:
        """The text under `name`."""
        return self.at("name").text


def fail(problems: Iterable[Problem]) -> None:
    """Raise `DataError` with one line per problem, unless all are warnings."""
    lines = [str(problem) for problem in problems if not problem.warning]
    if lines:
        raise DataError("\n".join(lines))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return `unknown WHAT 'name'`, with the nearest known name or all known names."""
    return f"unknown {what} {shown(name)}; {suggestion(name, known)}"


def shown(value: Any) -> str:
    """Format a value for a message: short, on one line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**40:
            return "a very long number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1:]}"
