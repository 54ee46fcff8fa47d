"""Where things stand in a file, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from .._internal.suggestions import nearest as nearest, suggestion
from ..errors import DataError

Path = tuple[str | int, ...]  # the keys and positions that lead to a value
MAX_FOUND = 100  # problems of one file


class Place(NamedTuple):
    """A line and a column, both from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """Something wrong in a file, where it stands. As text: `file:line:column: message`."""

    file: str
    line: int
    column: int
    message: str

    @property
    def warning(self) -> bool:
        """Whether it keeps nobody from using the file."""
        return False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {'warning: ' * self.warning}{self.message}"


class Warned(Problem):
    """A problem that keeps nobody from using the file."""

    __slots__ = ()

    @property
    def warning(self) -> bool:
        """It does not."""
        return True


class Found(NamedTuple):
    """A problem before its place is looked up: that of the value at `path`, or of its key."""

    path: Path
    message: str
    at_key: bool = False
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A file as read: its value of plain dicts, lists and scalars, and the place of every key and value.

    `whole`: reading came to the file's end, so what is not in `value` is not in the file either.
    """

    file: str
    value: Any = None
    keys: Mapping[Path, Place] = field(default_factory=dict)
    values: Mapping[Path, Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    whole: bool = True

    def problem(self, found: Found) -> Problem:
        """`found` at its place, or at that of the nearest thing around it."""
        place = self.place(found.path, at_key=found.at_key)
        return (Warned if found.warning else Problem)(self.file, *place, found.message)

    def place(self, path: Path, *, at_key: bool = False) -> Place:
        """Where the value at `path`, or its key, stands."""
        if at_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))

    def under(self, path: Path) -> Source:
        """What stands at `path`, as if it were a file of its own."""
        value = self.value
        for part in path:
            value = value[part]
        size = len(path)
        keys = {one[size:]: place for one, place in self.keys.items() if one[:size] == path}
        values = {one[size:]: place for one, place in self.values.items() if one[:size] == path}
        return Source(self.file, value, keys, values)

    def placed(self, found: Iterable[Found]) -> list[Problem]:
        """The problems of reading and what was found since, in the file's order; one a place of the former."""
        taken = {(problem.line, problem.column) for problem in self.problems}
        new = {self.problem(one) for one in islice(found, MAX_FOUND)}
        problems = sorted([*self.problems, *(problem for problem in new if problem[1:3] not in taken)])
        if len(new) == MAX_FOUND:
            problems.append(problems[-1]._replace(message=f"after {MAX_FOUND} problems no more is looked for"))
        return problems


@dataclass(frozen=True, slots=True)
class Node:
    """A value somewhere in a source, which may be of any shape: nothing here raises."""

    value: Any
    path: Path = ()

    def at(self, key: str) -> Node:
        """What stands under `key`; `None` if nothing does."""
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
        """The value if it is a text, else an empty one."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def name(self) -> str:
        """The text under `name`."""
        return self.at("name").text


def fail(problems: Iterable[Problem]) -> None:
    """Raise `DataError` with a line for each problem that is no warning, if there are any."""
    lines = [str(problem) for problem in problems if not problem.warning]
    if lines:
        raise DataError("\n".join(lines))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown WHAT 'name'`, with the nearest right one, or all there are."""
    return f"unknown {what} {shown(name)}; {suggestion(name, known)}"


def shown(value: Any) -> str:
    """A value as it stands in a message: short, and without line breaks."""
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
