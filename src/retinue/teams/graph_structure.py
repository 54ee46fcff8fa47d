"""Checks the structure of a graph by the names of its roles alone, so a file can be checked before it is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from .._internal.message_text import suggestion
from .graph_plan import reach_of
from .role import END, START

Where = tuple[str | int, ...]


class GraphProblem(NamedTuple):
    """A mistake in a graph. `where` is `("role", index)`, `("edge", index, "head" or "tail")`, `("branch", index, …)`
    or `()` for the graph itself."""

    where: Where
    message: str


@dataclass(frozen=True, slots=True)
class GraphOutline:
    """A graph by names: its roles, its edges, whether each is for errors, and its conditional edges."""

    roles: Sequence[str]
    edges: Sequence[tuple[str, str, bool]]
    branches: Sequence[tuple[str, Sequence[str]]]


def structure_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    """Yield everything that is wrong with the structure of a graph."""
    seen = set[str]()
    for index, name in enumerate(outline.roles):
        if name in seen:
            yield GraphProblem(("role", index), f"two roles are called {name!r}; give one of them another name")
        seen.add(name)
    if not outline.roles:
        yield GraphProblem((), "there are no roles")
        return
    named = [*_edge_problems(outline), *_branch_problems(outline)]
    yield from named
    if not named:
        yield from _path_problems(outline)


def _edge_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    seen = set[tuple[str, str, bool]]()
    for index, (head, tail, on_error) in enumerate(outline.edges):
        yield from _unknown(outline.roles, ("edge", index), head, [tail])
        if on_error and head == START:
            yield GraphProblem(("edge", index, "head"), f"{START} cannot fail, so it has no edge for errors")
        if (head, tail, on_error) in seen:
            yield GraphProblem(("edge", index), f"there are two edges from {head!r} to {tail!r}")
        seen.add((head, tail, on_error))


def _branch_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    for index, (head, tails) in enumerate(outline.branches):
        where: Where = ("branch", index)
        yield from _unknown(outline.roles, where, head, tails)
        if not tails:
            yield GraphProblem((*where, "tails"), f"the conditional edges from {head!r} have no candidates")
        certain = {tail for one, tail, on_error in outline.edges if one == head and not on_error}
        for tail in dict.fromkeys(tails):
            if tail in certain:
                both = f"{tail!r} follows {head!r} by an edge, so it cannot be a candidate, too"
                yield GraphProblem((*where, "tails"), both)


def _unknown(roles: Sequence[str], where: Where, head: str, tails: Iterable[str]) -> Iterator[GraphProblem]:
    if head == END:
        yield GraphProblem((*where, "head"), f"nothing follows {END}")
    elif head != START and head not in roles:
        yield GraphProblem((*where, "head"), f"no role {head!r}; {suggestion(head, [START, *roles])}")
    for tail in tails:
        if tail == START:
            yield GraphProblem((*where, "tail"), f"nothing leads to {START}")
        elif tail != END and tail not in roles:
            yield GraphProblem((*where, "tail"), f"no role {tail!r}; {suggestion(tail, [*roles, END])}")


def _path_problems(outline: GraphOutline) -> Iterator[GraphProblem]:
    """Yield the roles that cannot be reached or cannot end, and circles without a condition."""
    tails: dict[str, list[str]] = {name: [] for name in (START, *outline.roles)}
    for head, tail, _ in outline.edges:
        tails[head].append(tail)
    for head, candidates in outline.branches:
        tails[head] += candidates
    reach = reach_of(tails)
    if not tails[START]:
        yield GraphProblem((), f"nothing follows {START}; add an edge from {START} to the first role")
    for index, name in enumerate(outline.roles):
        if tails[START] and name not in reach[START]:
            yield GraphProblem(("role", index), f"the role {name!r} is never reached; add an edge to it")
        if not tails[name]:
            yield GraphProblem(("role", index), f"nothing follows the role {name!r}; add an edge, such as one to {END}")
        elif END not in reach[name] and _leads_somewhere(name, reach, tails):
            yield GraphProblem(("role", index), f"there is no way from the role {name!r} to {END}")
    yield from _endless(outline)


def _leads_somewhere(name: str, reach: Mapping[str, frozenset[str]], tails: Mapping[str, list[str]]) -> bool:
    """Return whether no role after `name` is a dead end, which is reported by itself."""
    return all(tails[one] for one in reach[name] if one != END)


def _endless(outline: GraphOutline) -> Iterator[GraphProblem]:
    graph = {name: [t for h, t, on_error in outline.edges if h == name and not on_error] for name in outline.roles}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        first = outline.roles.index(circle[-1])
        shown = " → ".join(circle)
        yield GraphProblem(("role", first), f"{shown} never ends; make one of these edges conditional")
