"""Any graph: every node that is reached runs once, after its inputs, and the result is that of a plain interpreter."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retinue import Document, Pipeline
from retinue.pipelines import Node, problems
from sampling import examples

KEYS = ("results", "documents", "a", "b")


@dataclass(frozen=True)
class Part:
    """A node to be: what it gives, by which branch, and where its inputs come from (node, branch)."""

    number: int
    keys: tuple[str, ...]
    branches: int
    is_async: bool
    inputs: tuple[tuple[int, int], ...]  # node 0 is the root

    @property
    def name(self) -> str:
        return f"n{self.number}"

    def gives(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        digest = hashlib.sha256(f"{self.number} {sorted(values.items())}".encode()).hexdigest()[:8]
        outputs = {key: [Document(f"{digest} {key}")] if key == "documents" else f"{digest} {key}" for key in self.keys}
        return outputs, f"output_{int(digest, 16) % self.branches + 1}"


@st.composite
def graphs(draw: st.DrawFn) -> list[Part]:
    parts: list[Part] = []
    for number in range(1, draw(st.integers(1, 14)) + 1):
        sources = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=4, unique=True))
        inputs = tuple(
            (source, draw(st.integers(1, parts[source - 1].branches)) if source else 1) for source in sources
        )
        keys = tuple(draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True)))
        branches = draw(st.sampled_from([1, 1, 1, 2]))
        parts.append(Part(number, keys, branches, draw(st.booleans()), inputs))
    return parts


@dataclass
class Ran:
    """Which nodes ran, in the order in which they ended, and what was done when each began."""

    ended: list[int] = field(default_factory=list)
    done_before: dict[int, set[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, part: Part) -> None:
        with self.lock:
            assert part.number not in self.done_before, f"{part.name} ran twice"
            self.done_before[part.number] = set(self.ended)

    def end(self, part: Part) -> None:
        with self.lock:
            self.ended.append(part.number)


def nodes(parts: list[Part], ran: Ran) -> list[Node]:
    def make(part: Part) -> Node:
        def call(**values: Any) -> Any:
            ran.begin(part)
            given = part.gives(values)
            ran.end(part)
            return given

        async def call_async(**values: Any) -> Any:
            ran.begin(part)
            await asyncio.sleep(0)
            given = part.gives(values)
            ran.end(part)
            return given

        inputs = [f"n{source}.output_{branch}" if source else "Query" for source, branch in part.inputs]
        return Node(call_async if part.is_async else call, part.name, inputs)

    return [make(part) for part in parts]


# ── the plain interpreter ────────────────────────────────────────────────────────────────────────

Visible = dict[str, tuple[int, Any]]


def interpret(parts: list[Part], query: str) -> tuple[dict[str, Any], set[int]]:
    """One node after the other, in the order of their numbers."""
    seen: dict[int, Visible] = {0: {"query": (0, query)}}
    chosen = {0: 1}
    above: dict[int, set[int]] = {0: set()}
    for part in parts:
        above[part.number] = {node for source, _ in part.inputs for node in {source, *above[source]}}
        live = [source for source, branch in part.inputs if source in seen and chosen[source] == branch]
        if live:
            visible = meet(part.number, [seen[source] for source in live], above)
            outputs, branch = part.gives({key: value for key, (_, value) in visible.items()})
            seen[part.number] = visible | {key: (part.number, value) for key, value in outputs.items()}
            chosen[part.number] = int(branch.removeprefix("output_"))
    taken = {source for part in parts for source, branch in part.inputs if chosen.get(source) == branch}
    ends = [seen[part.number] for part in parts if part.number in seen and part.number not in taken]
    result = meet(-1, ends, above)
    return {key: value for key, (_, value) in result.items()}, set(seen) - {0}


def meet(place: int, inputs: list[Visible], above: Mapping[int, set[int]]) -> Visible:
    met: Visible = {}
    for key in {key for visible in inputs for key in visible}:
        candidates = list(dict.fromkeys(visible[key][0] for visible in inputs if key in visible))
        values = {visible[key][0]: visible[key][1] for visible in inputs if key in visible}
        newest = [one for one in candidates if not any(one in above[other] for other in candidates)]
        if key == "documents" and len(newest) > 1:
            met[key] = place, [document for one in newest for document in values[one]]
        else:
            met[key] = newest[-1], values[newest[-1]]
    return met


@settings(max_examples=examples(200))
@given(graphs(), st.text(max_size=3), st.randoms(use_true_random=False))
def test_a_run_is_what_a_plain_interpreter_does(parts: list[Part], query: str, order: Any) -> None:
    ran = Ran()
    definition = nodes(parts, ran)
    assert problems(definition) == []
    result = Pipeline(definition).run(query)
    expected, reached = interpret(parts, query)
    assert result == expected
    assert sorted(ran.ended) == sorted(reached)
    for part in parts:
        if part.number in reached:
            assert {source for source, _ in part.inputs if source in reached} <= ran.done_before[part.number]

    shuffled = nodes(parts, Ran())
    order.shuffle(shuffled)
    again = Pipeline(shuffled)
    assert again.run(query).keys() == expected.keys()
    assert again.draw_svg().count("<rect") == len(parts) + 1


@settings(max_examples=examples(100))
@given(graphs(), st.data())
def test_a_run_to_a_target_runs_what_is_before_it_and_nothing_else(parts: list[Part], data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(parts))
    wanted, todo = set(), [target.number]
    while todo:
        number = todo.pop()
        if number and number not in wanted:
            wanted.add(number)
            todo += [source for source, _ in parts[number - 1].inputs]
    ran = Ran()
    Pipeline(nodes(parts, ran)).run("x", targets=target.name)
    _, reached = interpret(parts, "x")
    assert set(ran.ended) == wanted & reached


@settings(max_examples=examples(100))
@given(graphs(), st.data())
def test_an_edge_backwards_is_found_as_a_cycle(parts: list[Part], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(parts) - 1))
    high = data.draw(st.integers(low, len(parts) - 1))
    definition = nodes(parts, Ran())
    chain = [Node(lambda **_: 1, f"c{number}", [f"c{number - 1}"]) for number in range(1, 4)]
    first = Node(lambda **_: 1, "c0", [f"{parts[low].name}.output_1", "c3"])
    loop = [first, *chain, Node(lambda **_: 1, "end", ["c3", f"{parts[high].name}.output_1"])]
    found = problems([*definition, *loop])
    assert len(found) == 1
    assert found[0].endswith("is a cycle; a pipeline may not have one")


@pytest.mark.full
def test_a_long_chain_needs_no_recursion() -> None:
    pipeline = Pipeline()
    for number in range(3_000):
        pipeline.add_node(lambda results=0: results + 1, f"n{number}")
    assert pipeline.run("x")["results"] == 3_000
    assert pipeline.draw().count("↓") == 3_000
    assert problems(pipeline.nodes) == []
    ring = [Node(lambda **_: 1, f"r{number}", [f"r{(number - 1) % 3_000}"]) for number in range(3_000)]
    assert len(problems(ring)) == 1
