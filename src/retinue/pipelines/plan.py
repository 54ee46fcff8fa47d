"""The execution plan of a pipeline: its nodes by number, in topological order, grouped into chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..core.component import DeclaredComponent
from .graph import ROOT, Node, Wire
from .graph_check import topological_order


@dataclass(frozen=True)
class Plan:
    """The data that a run needs, by node number. Nodes are in topological order; number 0 is the root.

    `wires` have the number of their source. `before` is a bit set of the nodes before each node. `chains` are sequences
    of nodes with exactly one successor and one predecessor each, which run as a unit; `after` and `waits` count between
    chains. `ends`: the requested targets, or empty.
    """

    names: tuple[str, ...]
    components: tuple[DeclaredComponent | None, ...]
    wires: tuple[tuple[tuple[int, Wire], ...], ...]
    before: tuple[int, ...]
    chains: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    waits: tuple[int, ...]
    listeners: tuple[frozenset[str], ...]
    ends: tuple[int, ...]


def needed(nodes: Mapping[str, Node], targets: Iterable[str]) -> list[Node]:
    """Return `targets` and all nodes before them."""
    found: set[str] = set()
    todo = list(targets)
    while todo:
        name = todo.pop()
        if name != ROOT and name not in found:
            found.add(name)
            todo.extend(nodes[name].sources)
    return [node for node in nodes.values() if node.name in found]


def plan(nodes: Iterable[Node], targets: Iterable[str] = ()) -> Plan:
    """Return the plan of a valid pipeline."""
    ordered = topological_order(nodes)
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
    chains, after, waits = _chains(sources)
    return Plan(
        tuple(number),
        (None, *(node.component for node in ordered)),
        ((), *(tuple((number[wire.source], wire) for wire in node.wires) for node in ordered)),
        tuple(before),
        chains,
        after,
        waits,
        tuple(frozenset(branches) for branches in listeners),
        tuple(number[name] for name in targets),
    )


def _chains(
    sources: list[tuple[int, ...]],
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the chains, the chains after each, and how many each waits for. The first chain begins with the root."""
    following: list[list[int]] = [[] for _ in sources]
    for node, mine in enumerate(sources):
        for source in mine:
            following[source].append(node)
    chain_of = [-1] * len(sources)
    chains: list[list[int]] = []
    for node, mine in enumerate(sources):
        if len(mine) == 1 and len(following[mine[0]]) == 1:
            chain_of[node] = chain_of[mine[0]]
            chains[chain_of[node]].append(node)
        else:
            chain_of[node] = len(chains)
            chains.append([node])
    after = tuple(tuple(chain_of[node] for node in following[chain[-1]]) for chain in chains)
    return tuple(map(tuple, chains)), after, tuple(len(sources[chain[0]]) for chain in chains)
