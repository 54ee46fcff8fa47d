"""A file that was read as plain values: the positions of these, and the problems found there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ..errors import DataError

KeyPath = tuple[str | int, ...]  # the keys and indexes that lead to a value
MAX_FOUND = 100  # problems per file


class Place(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """A problem at a position in a file. As text: `file:line:column: message`. With a `warning`, the file can still be
    used."""

    file: str
    line: int
    column: int
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {'warning: ' * self.warning}{self.message}"


class Found(NamedTuple):
    """A problem without its position yet: it concerns the value at `path`, or that value's key."""

    path: KeyPath
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
    keys: Mapping[KeyPath, Place] = field(default_factory=dict)
    values: Mapping[KeyPath, Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    whole: bool = True

    def locate_problem(self, found: Found) -> Problem:
        """Return `found` with its position, or that of the nearest enclosing value."""
        place = self.place(found.path, at_key=found.at_key)
        return Problem(self.file, *place, found.message, found.warning)

    def place(self, path: KeyPath, *, at_key: bool = False) -> Place:
        """Return the position of the value at `path`, or of its key."""
        if at_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))

    def locate_problems(self, found: Iterable[Found]) -> list[Problem]:
        """Return the syntax problems and those in `found`, in order of position. Later ones at the position of a syntax
        problem are dropped."""
        taken = {(problem.line, problem.column) for problem in self.problems}
        new = {self.locate_problem(one) for one in islice(found, MAX_FOUND)}
        problems = sorted([*self.problems, *(problem for problem in new if problem[1:3] not in taken)])
        if len(new) == MAX_FOUND:
            problems.append(problems[-1]._replace(message=f"stopped after {MAX_FOUND} problems"))
        return problems


def fail(problems: Iterable[Problem]) -> None:
    """Raise `DataError` with one line per problem, unless all are warnings."""
    lines = [str(problem) for problem in problems if not problem.warning]
    if lines:
        raise DataError("\n".join(lines))
