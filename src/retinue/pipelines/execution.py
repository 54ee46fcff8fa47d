"""One run of a pipeline: the plan of its nodes, the values visible at each, and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._internal.concurrency import find_first_error, run_in_thread
from .._internal.containment import await_contained, call_contained, describe_error
from ..core.component import FIRST, DeclaredComponent
from ..core.values import Document
from ..errors import NodeFailed, UsageError
from .graph import ROOT, Node, Wire, sort_topologically


@dataclass(frozen=True)
class Plan:
    """The data that a run needs, by node number. Nodes are in topological order; number 0 is the root.

    `wires` have the number of their source. `before` is a bit set of the nodes before each node. `listeners` are the
    branches of each node that others follow. `ends`: the requested targets, or empty.
    """

    names: tuple[str, ...]
    components: tuple[DeclaredComponent | None, ...]
    wires: tuple[tuple[tuple[int, Wire], ...], ...]
    before: tuple[int, ...]
    listeners: tuple[frozenset[str], ...]
    ends: tuple[int, ...]


def find_needed_nodes(nodes: Mapping[str, Node], targets: Iterable[str]) -> list[Node]:
    """Return `targets` and all nodes before them."""
    found: set[str] = set()
    todo = list(targets)
    while todo:
        name = todo.pop()
        if name != ROOT and name not in found:
            found.add(name)
            todo.extend(nodes[name].sources)
    return [node for node in nodes.values() if node.name in found]


def make_plan(nodes: Iterable[Node], targets: Iterable[str] = ()) -> Plan:
    """Return the plan of a valid pipeline."""
    ordered = sort_topologically(nodes)
    number = {ROOT: 0} | {node.name: at for at, node in enumerate(ordered, 1)}
    sources = [(), *(tuple(number[name] for name in node.sources) for node in ordered)]
    before = [0]
    for mine in sources[1:]:
        bits = 0
        for source in mine:
            bits |= before[source] | 1 << source
        before.append(bits)
    listeners: list[set[str]] = [set() for _ in sources]
    for node in ordered:
        for wire in node.wires:
            listeners[number[wire.source]].add(wire.branch)
    return Plan(
        tuple(number),
        (None, *(node.component for node in ordered)),
        ((), *(tuple((number[wire.source], wire) for wire in node.wires) for node in ordered)),
        tuple(before),
        tuple(frozenset(branches) for branches in listeners),
        tuple(number[name] for name in targets),
    )


Seen = Mapping[str, tuple[int, Any]]  # by name: the node that produced the value, and the value


def strip_nodes(seen: Seen) -> dict[str, Any]:
    """Return the values without their nodes."""
    return {name: value for name, (_, value) in seen.items()}


def with_outputs(seen: Seen, node: int, outputs: Mapping[str, Any]) -> Seen:
    """Return the values visible after `node`, which produced `outputs`."""
    return {**seen, **{name: (node, value) for name, value in outputs.items()}}


def merge(node: int, inputs: Sequence[Seen], before: Sequence[int]) -> Seen:
    """Merge the values of `inputs` at `node`, in order. `before` has the bit set of the nodes before each node.

    A value is superseded by one from a later node on its path. If several remain under one name, lists of documents are
    concatenated in the order of the inputs; of other values, the last wins.
    """
    if len(inputs) == 1:
        return inputs[0]
    found: dict[str, dict[int, Any]] = {}
    for seen in inputs:
        for name, (giver, value) in seen.items():
            found.setdefault(name, {})[giver] = value
    merged: dict[str, tuple[int, Any]] = {}
    for name, values in found.items():
        if len(values) > 1:
            later = 0
            for giver in values:
                later |= before[giver]
            values = {giver: value for giver, value in values.items() if not later >> giver & 1}
        if len(values) > 1 and all(map(_are_documents, values.values())):
            merged[name] = node, [document for documents in values.values() for document in documents]
        else:
            giver, value = values.popitem()
            merged[name] = giver, value
    return merged


def _are_documents(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Document) for item in value)


class Execution:
    """A run with its `plan`, its inputs, and the parameters of individual nodes. Each node is a task, which waits for
    those before it."""

    def __init__(self, plan: Plan, values: Mapping[str, Any], params: Mapping[str, Mapping[str, Any]]) -> None:
        self._plan = plan
        self._params = params
        self._seen: list[Seen | None] = [None] * len(plan.names)  # by node, once it has run
        self._seen[0] = {name: (0, value) for name, value in values.items()}
        self._branches = [FIRST] * len(plan.names)
        self._arriving: dict[int, Seen] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def finish(self) -> dict[str, Any]:
        """Run all nodes and return the values visible at the ends. Raises the first node's `NodeFailed` or
        `UsageError`.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for node in range(1, len(self._plan.names)):
                    self._tasks.append(group.create_task(self._run(node)))
        except ExceptionGroup as failed:
            error = find_first_error(failed)
            raise error from error.__cause__
        ends = [seen for node in self._find_ends() if (seen := self._seen[node]) is not None]
        here = len(self._plan.names)
        return strip_nodes(merge(here, ends, self._plan.before))

    def _find_ends(self) -> list[int]:
        """Return the nodes where the run ended: its targets, or nodes whose chosen branch has no successor."""
        if self._plan.ends:
            return list(self._plan.ends)
        listeners = self._plan.listeners
        return [node for node in range(1, len(listeners)) if self._branches[node] not in listeners[node]]

    async def _run(self, node: int) -> None:
        component = self._plan.components[node]
        assert component is not None, "the root cannot be run"
        for source, _ in self._plan.wires[node]:
            if source:
                await self._tasks[source - 1]
        if not self._is_reached(node):
            return
        arguments = self._collect_arguments(node, component)
        try:
            if component.is_async:
                value = await await_contained(component.function(**arguments))
            else:
                value = await run_in_thread(partial(call_contained, component.function, **arguments))
        except Exception as error:
            raise _make_node_error(component, error) from error
        self._note(node, component, value)

    def _is_reached(self, node: int) -> bool:
        """Return whether one of a node's inputs was chosen; other inputs were not, or their nodes did not run."""
        return any(self._is_live(source, wire.branch) for source, wire in self._plan.wires[node])

    def _is_live(self, source: int, branch: str) -> bool:
        return self._seen[source] is not None and self._branches[source] == branch

    def _collect_arguments(self, node: int, component: DeclaredComponent) -> dict[str, Any]:
        inputs: dict[int, Seen] = {}
        mapped: dict[str, Any] = {}
        for source, wire in self._plan.wires[node]:
            seen = self._seen[source]
            if seen is None or self._branches[source] != wire.branch:
                continue
            inputs[source] = seen
            if wire.parameter:
                if wire.key not in seen:
                    raise UsageError(f"node {component.name!r}: {wire.source!r} returned no {wire.key!r}")
                mapped[wire.parameter] = seen[wire.key][1]
        arriving = merge(node, list(inputs.values()), self._plan.before)
        self._arriving[node] = arriving
        if component.takes_all or not component.required <= arriving.keys():
            values = strip_nodes(arriving)  # all values: to select from, or to list in an error
        else:
            values = {name: arriving[name][1] for name in component.inputs if name in arriving}
        if "inputs" in component.inputs and "inputs" not in values:
            values["inputs"] = [strip_nodes(seen) for seen in inputs.values()]
        try:
            return component.select_arguments({**values, **mapped, **self._params.get(component.name, {})})
        except UsageError as error:
            raise UsageError(f"node {error}") from None

    def _note(self, node: int, component: DeclaredComponent, value: Any) -> None:
        try:
            outputs, self._branches[node] = component.split_outcome(value)
        except UsageError as error:
            raise UsageError(f"node {error}") from None
        self._seen[node] = with_outputs(self._arriving.pop(node), node, outputs)


def _make_node_error(component: DeclaredComponent, error: Exception) -> NodeFailed:
    told = isinstance(error, NodeFailed | UsageError)
    return NodeFailed(component.name, str(error) if told else describe_error(error))
