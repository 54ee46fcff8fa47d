"""A pipeline as a graph: nodes connected by wires, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any

from ..core.component import FIRST, DeclaredComponent, component
from ..errors import UsageError

ROOT = "Query"
INPUTS = {ROOT: ("query",), "File": ("file_paths",)}  # by the root's name: the values it provides
_WIRE = re.compile(r"(?P<source>[^.]+)(\.(?P<branch>output_[1-9][0-9]*))?(\.(?P<key>(?!output_[1-9])[^.]+))?")
Visible = frozenset[str] | None  # values available after a node; None: unknown


@dataclass(frozen=True, slots=True)
class Wire:
    """An input of a node: all values visible after `source`, if it chose `branch`.

    With a `parameter`, only that one is set, to the value `key`. `explicit`: the branch was written out. `shown` is the
    source as written; the alternative name of the root is `ROOT` here.
    """

    source: str
    branch: str = FIRST
    explicit: bool = False
    parameter: str = ""
    key: str = ""
    shown: str = ""

    def __str__(self) -> str:
        name = self.shown or self.source
        return f"{name}.{self.branch}" if self.explicit else name


@dataclass(frozen=True)
class Node:
    """The definition of a node.

    `inputs`: names of nodes (`"Query"` is the root, `"Classify.output_2"` a branch), or a mapping of parameters to
    single values: `{"text": "Summary.results"}`.
    """

    something: Any
    name: str
    inputs: Sequence[str] | Mapping[str, str] = (ROOT,)

    @cached_property
    def component(self) -> DeclaredComponent:
        """The component under the node's name. Raises `UsageError` if it is not one."""
        return replace(component(self.something), name=self.name)

    @cached_property
    def wires(self) -> tuple[Wire, ...]:
        """The parsed inputs. Raises `UsageError` for an invalid one."""
        if isinstance(self.inputs, str):
            raise UsageError(f"node {self.name!r}: inputs must be a list: [{self.inputs!r}]")
        named = isinstance(self.inputs, Mapping)
        items = self.inputs.items() if isinstance(self.inputs, Mapping) else [("", text) for text in self.inputs]
        wires: list[Wire] = []
        for parameter, text in items:
            found = _WIRE.fullmatch(text) if isinstance(text, str) else None
            if found is None or bool(found["key"]) != named:
                want = 'NODE.VALUE, e.g. "Query.query"' if named else 'NODE or NODE.output_2, e.g. "Query"'
                raise UsageError(f"node {self.name!r}: cannot read the input {text!r} (want {want})")
            source, branch, key = found["source"], found["branch"], found["key"] or ""
            meant = ROOT if source in INPUTS else source
            wires.append(Wire(meant, branch or FIRST, bool(branch), parameter, key, source))
        return tuple(wires)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the source nodes, without duplicates."""
        return tuple(dict.fromkeys(wire.source for wire in self.wires))


def find_root_name(nodes: Iterable[Node]) -> str:
    """Return the name that the nodes use for the root."""
    named = (wire.shown for node in nodes for wire in node.wires if wire.source == ROOT)
    return next(named, ROOT)


def list_inputs(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return what the root provides under the name that these nodes use; nodes with unreadable wires are ignored."""
    return INPUTS[find_root_name(node for node in nodes if not any(find_wire_errors(node)))]


def problems(nodes: Iterable[Node], inputs: Collection[str] | None = None) -> list[str]:
    """Return all problems of a pipeline with these `nodes`, in any order. Nothing is run."""
    found: list[str] = []
    nodes = list(nodes)
    readable: dict[str, Node] = {}
    for node in nodes:
        wrong = [*find_name_problems(node.name, readable), *find_wire_errors(node)]
        found += wrong
        if not wrong:
            readable[node.name] = node
    names = {ROOT, *(node.name for node in nodes if isinstance(node.name, str))}
    used = {source for node in readable.values() for source in node.sources}
    for node in readable.values():
        if not node.wires and node.name in used:
            found.append(f"node {node.name!r} has no inputs, so it is a second root beside {ROOT!r}; want only one")
        found += find_wire_problems(node, readable, names, used)
    for cycle in find_cycles({name: node.sources for name, node in readable.items()}):
        found.append(f"{' → '.join([*cycle, cycle[0]])} is a cycle; a pipeline may not have one")
    if not found:
        visible: dict[str, Visible] = {ROOT: frozenset(list_inputs(nodes) if inputs is None else inputs)}
        for node in sort_topologically(readable.values()):
            found += find_missing_inputs(node, visible)
            visible[node.name] = find_visible_after(node, visible)
    return found


def find_name_problems(name: str, taken: Collection[str]) -> Iterator[str]:
    """Yield why `name` is not valid for a node."""
    if not isinstance(name, str) or not name.isprintable() or not name.strip() or "." in name:
        yield f"a node cannot be called {name!r}: want a text without dots and line breaks"
    elif name in INPUTS:
        yield f"a node cannot be called {name!r}: that is the root's name"
    elif name in taken:
        yield f"two nodes are called {name!r}; names must be unique"


def find_wire_errors(node: Node) -> Iterator[str]:
    """Yield why a node's component or inputs cannot be read."""
    try:
        _ = node.component
    except UsageError as error:
        yield f"node {node.name!r}: {error}"
    try:
        _ = node.wires
    except UsageError as error:
        yield str(error)


def find_wire_problems(
    node: Node, nodes: Mapping[str, Node], names: Collection[str], used: Collection[str] = ()
) -> Iterator[str]:
    """Yield problems of one node's inputs. `names` includes nodes with unreadable wires."""
    if not node.wires and node.name not in used:
        yield f"node {node.name!r} is not connected: it has no inputs; the root is {ROOT!r}"
    seen: set[str] = set()
    for wire in node.wires:
        if wire.source not in names:
            near = get_close_matches(wire.source, names, 1)
            known = f"do you mean {near[0]!r}?" if near else f"there are: {_join_names(names)}"
            yield f"node {node.name!r}: its input {wire.source!r} is not a node of this pipeline; {known}"
        elif wire.source == ROOT and wire.branch != FIRST:
            yield f"node {node.name!r}: {ROOT!r} has no {wire.branch}"
        elif wire.source in nodes:
            yield from _find_branch_problems(node.name, wire, nodes[wire.source].component.branches or 0)
        if not wire.parameter and str(wire) in seen:
            yield f"node {node.name!r}: its input {str(wire)!r} is listed twice"
        seen.add(str(wire))
        if wire.parameter and wire.parameter not in node.component.inputs and not node.component.takes_all:
            yield f"node {node.name!r} has no input {wire.parameter!r}; it has: {_join_names(node.component.inputs)}"


def _find_branch_problems(node: str, wire: Wire, branches: int) -> Iterator[str]:
    if branches > 1 and not wire.explicit:
        options = " or ".join(f"{wire.source}.output_{number}" for number in range(1, branches + 1))
        yield f"node {node!r}: {wire.source!r} has {branches} branches; say which: {options}"
    elif branches and int(wire.branch.removeprefix("output_")) > branches:
        yield f"node {node!r}: {wire.source!r} has no {wire.branch}, only {branches}"


def find_cycles(sources: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Yield cycles, one per strongly connected component, from source to user. `sources` are given by user."""
    left = {name: [one for one in given if one in sources] for name, given in sources.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = error.args[1][:-1]
            yield cycle
            left = {name: [one for one in left[name] if one not in cycle] for name in left if name not in cycle}
        else:
            return


def sort_topologically(nodes: Iterable[Node]) -> list[Node]:
    """Sort `nodes` topologically; otherwise their order is kept."""
    nodes = list(nodes)
    place = {node.name: at for at, node in enumerate(nodes)}
    sorter = TopologicalSorter(
        {at: [place[source] for source in node.sources if source in place] for at, node in enumerate(nodes)}
    )
    sorter.prepare()
    ready: list[int] = []
    ordered: list[Node] = []
    while sorter.is_active():
        for at in sorter.get_ready():
            heappush(ready, at)
        first = heappop(ready)
        ordered.append(nodes[first])
        sorter.done(first)
    return ordered


def find_missing_inputs(node: Node, visible: Mapping[str, Visible]) -> Iterator[str]:
    """Yield required inputs of a node that nothing before it provides."""
    for wire in node.wires:
        given = visible[wire.source]
        if wire.parameter and given is not None and wire.key not in given:
            yield f"node {node.name!r}: {wire.source!r} has no output {wire.key!r}; it has: {_join_names(given)}"
    there = _find_visible_before(node, visible)
    if there is None:
        return
    missing = node.component.required - there - {wire.parameter for wire in node.wires} - {"inputs"}
    for name in (one for one in node.component.inputs if one in missing):
        yield (
            f"node {node.name!r} needs {name!r}, which nothing before it provides (available: "
            f'{_join_names(there)}); rename one of them, or set inputs={{"{name}": "{node.sources[0]}.…"}}'
        )


def find_visible_after(node: Node, visible: Mapping[str, Visible]) -> Visible:
    """Return the values available after `node`."""
    before, outputs = _find_visible_before(node, visible), node.component.outputs
    return None if before is None or outputs is None else before | outputs.keys()


def _find_visible_before(node: Node, visible: Mapping[str, Visible]) -> Visible:
    before: frozenset[str] = frozenset()
    for given in (visible[source] for source in node.sources):
        if given is None:
            return None
        before |= given
    return before


def find_root_values(nodes: Iterable[Node], inputs: Collection[str]) -> frozenset[str]:
    """Return those of `inputs` that a node needs and only the root provides. `nodes` must be in topological order."""
    needed: set[str] = set()
    visible: dict[str, Visible] = {ROOT: frozenset()}
    for node in nodes:
        needed |= {wire.key for wire in node.wires if wire.parameter and wire.source == ROOT}
        there = _find_visible_before(node, visible)
        if there is not None:
            needed |= node.component.required - there - {wire.parameter for wire in node.wires}
        visible[node.name] = find_visible_after(node, visible)
    return frozenset(needed & set(inputs))


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def raise_problems(pipeline: str, found: Sequence[str]) -> None:
    """Raise `UsageError` with all problems in `found`, if there are any."""
    if found:
        raise UsageError(f"pipeline {pipeline!r}: " + "\n".join(found))
