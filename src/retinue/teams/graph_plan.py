"""`GraphPlan`: a compiled graph as plain data, which a run follows to its end whatever becomes of the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .role import END, START
from .selectors import ModelChoice, When
from .shared_state import StateField

WHOLE_STATE = "state"


@dataclass(frozen=True, slots=True)
class RolePlan:
    """A role in a plan.

    Args:
        reads: The fields that it reads; `None`: what the roles before it said.
        takes: The fields by parameter, for a function; `WHOLE_STATE` stands for the whole state.
        parameter: The only parameter of a function that gets what the roles before it said.
        optional: The fields that may be unset.
        gate: The question for a person who decides, if this is a human gate.
    """

    name: str
    writes: tuple[str, ...]
    max_visits: int
    reads: tuple[str, ...] | None = None
    takes: Mapping[str, str] = field(default_factory=dict)
    parameter: str = ""
    optional: tuple[str, ...] = ()
    speaks_json: bool = False
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Conditional edges from `head`. `tails` has the candidates by the word that selects them.

    A function is called as the tool `tool`; otherwise `selector` chooses.
    """

    head: str
    tails: Mapping[str, str]
    selector: When | ModelChoice | None = None
    tool: str = ""


@dataclass(frozen=True)
class GraphPlan:
    """A compiled graph."""

    name: str
    roles: Mapping[str, RolePlan]
    edges: tuple[tuple[str, str], ...]
    error_edges: tuple[tuple[str, str], ...] = ()
    branches: tuple[Branch, ...] = ()
    fields: Mapping[str, StateField] = field(default_factory=dict)
    answer: str = ""
    max_runs: int = 100

    def list_tails(self, head: str, *, failed: bool = False) -> list[str]:
        """Return where the edges from `head` lead."""
        return [tail for one, tail in (self.error_edges if failed else self.edges) if one == head]

    def list_branches(self, head: str) -> list[Branch]:
        """Return the conditional edges from `head`."""
        return [branch for branch in self.branches if branch.head == head]

    @cached_property
    def heads(self) -> Mapping[str, frozenset[str]]:
        """By role, what leads to it."""
        return {name: frozenset(head for head, tail in self.list_links() if tail == name) for name in self.roles}

    @cached_property
    def reach(self) -> Mapping[str, frozenset[str]]:
        """By role, the roles that may run after it."""
        return reach_of({head: [tail for one, tail in self.list_links() if one == head] for head in self.roles})

    def list_links(self) -> Iterator[tuple[str, str]]:
        """Yield every edge of any kind, as head and tail."""
        yield from self.edges
        yield from self.error_edges
        for branch in self.branches:
            yield from ((branch.head, tail) for tail in branch.tails.values())


def reach_of(tails: Mapping[str, list[str]]) -> dict[str, frozenset[str]]:
    """Return by node the nodes that can be reached from it in one step or more."""
    return {name: frozenset(_find_reachable(name, tails)) for name in tails}


def _find_reachable(name: str, tails: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    new = list(tails.get(name, ()))
    while new:
        one = new.pop()
        if one not in found:
            found.add(one)
            new += tails.get(one, ())
    return found - {START, END} | ({END} & found)
