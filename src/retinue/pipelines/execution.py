"""One run of a pipeline: the plan of its nodes, the values visible at each, and where it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._internal.concurrency import find_first_error, run_in_thread
from .._internal.containment import await_contained, call_contained, describe_error
from ..core.component import FIRST
from ..core.values import Document
from ..errors import NodeFailed, UsageError
from .graph import ROOT, Node, Wire, sort_topologically

Seen = Mapping[str, tuple[str, Any]]  # by name: the node that produced the value, and the value


@dataclass(frozen=True)
class Plan:
    """What a run needs to know of a valid pipeline.

    `nodes` are in topological order. `before` has the nodes before each, and `followed` the branches, as pairs of node
    and branch, that others follow. `targets` are the requested ends, or empty.
    """

    nodes: Sequence[Node]
    before: Mapping[str, Set[str]]
    followed: Set[tuple[str, str]]
    targets: Collection[str]


def make_plan(nodes: Mapping[str, Node], targets: Collection[str] = ()) -> Plan:
    """Return the plan for the `targets`, or all nodes, and what is before them."""
    needed, new = set[str](), list(targets or nodes)
    while new:
        name = new.pop()
        if name != ROOT and name not in needed:
            needed.add(name)
            new += nodes[name].sources
    ordered = sort_topologically(node for node in nodes.values() if node.name in needed)
    before: dict[str, Set[str]] = {ROOT: frozenset()}
    for node in ordered:
        before[node.name] = frozenset(node.sources).union(*(before[source] for source in node.sources))
    return Plan(ordered, before, {(wire.source, wire.branch) for node in ordered for wire in node.wires}, targets)


class Execution:
    """A run with its `plan`, its inputs, and the parameters of individual nodes. Each node is a task, which waits for
    those before it."""

    def __init__(self, plan: Plan, values: Mapping[str, Any], params: Mapping[str, Mapping[str, Any]]) -> None:
        self._plan = plan
        self._params = params
        self._seen: dict[str, Seen] = {ROOT: {name: (ROOT, value) for name, value in values.items()}}
        self._branches = {ROOT: FIRST}  # that were chosen by the nodes that ran
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def finish(self) -> dict[str, Any]:
        """Run all nodes and return the values visible at the ends: the targets, or the nodes whose chosen branch has no
        successor. Raises the first node's `NodeFailed` or `UsageError`.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for node in self._plan.nodes:
                    self._tasks[node.name] = group.create_task(self._run(node))
        except ExceptionGroup as failed:
            error = find_first_error(failed)
            raise error from error.__cause__
        last = {name for name, branch in self._branches.items() if (name, branch) not in self._plan.followed}
        order = self._plan.targets or [node.name for node in self._plan.nodes if node.name in last]
        return _strip_nodes(self._merge("", [self._seen[name] for name in order if name in self._seen]))

    async def _run(self, node: Node) -> None:
        for source in node.sources:
            if source != ROOT:
                await self._tasks[source]
        chosen = [wire for wire in node.wires if self._branches.get(wire.source) == wire.branch]
        if not chosen:  # other branches were, or the nodes before it did not run
            return
        arriving = self._merge(node.name, [self._seen[name] for name in dict.fromkeys(one.source for one in chosen)])
        component, arguments = node.component, self._collect_arguments(node, chosen, arriving)
        try:
            if component.is_async:
                value = await await_contained(component.function(**arguments))
            else:
                value = await run_in_thread(partial(call_contained, component.function, **arguments))
        except Exception as error:
            told = isinstance(error, NodeFailed | UsageError)
            raise NodeFailed(node.name, str(error) if told else describe_error(error)) from error
        try:
            outputs, branch = component.split_outcome(value)
        except UsageError as error:
            raise UsageError(f"node {error}") from None
        self._seen[node.name] = {**arriving, **{name: (node.name, value) for name, value in outputs.items()}}
        self._branches[node.name] = branch

    def _collect_arguments(self, node: Node, chosen: Iterable[Wire], arriving: Seen) -> dict[str, Any]:
        component, mapped = node.component, dict[str, Any]()
        for wire in chosen:
            if wire.parameter:
                if wire.key not in self._seen[wire.source]:
                    raise UsageError(f"node {node.name!r}: {wire.source!r} returned no {wire.key!r}")
                mapped[wire.parameter] = self._seen[wire.source][wire.key][1]
        values = _strip_nodes(arriving)
        if not component.takes_all and component.required <= values.keys():  # otherwise, an error lists them all
            values = {name: values[name] for name in component.inputs if name in values}
        if "inputs" in component.inputs and "inputs" not in values:
            sources = dict.fromkeys(wire.source for wire in chosen)
            values["inputs"] = [_strip_nodes(self._seen[source]) for source in sources]
        try:
            return component.select_arguments({**values, **mapped, **self._params.get(node.name, {})})
        except UsageError as error:
            raise UsageError(f"node {error}") from None

    def _merge(self, node: str, inputs: Sequence[Seen]) -> Seen:
        """Merge the values of `inputs` at `node`, in order.

        A value is superseded by one from a later node on its path. If several remain under one name, lists of documents
        are concatenated in the order of the inputs; of other values, the last wins.
        """
        if len(inputs) == 1:
            return inputs[0]
        found: dict[str, dict[str, Any]] = {}
        for seen in inputs:
            for name, (giver, value) in seen.items():
                found.setdefault(name, {})[giver] = value
        merged: dict[str, tuple[str, Any]] = {}
        for name, values in found.items():
            if len(values) > 1:
                superseded = frozenset[str]().union(*(self._plan.before[giver] for giver in values))
                values = {giver: value for giver, value in values.items() if giver not in superseded}
            if len(values) > 1 and all(map(_are_documents, values.values())):
                merged[name] = node, [document for documents in values.values() for document in documents]
            else:
                merged[name] = values.popitem()
        return merged


def _strip_nodes(seen: Seen) -> dict[str, Any]:
    """Return the values without their nodes."""
    return {name: value for name, (_, value) in seen.items()}


def _are_documents(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Document) for item in value)
