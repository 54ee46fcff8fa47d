"""`Pipeline`: a directed graph of components; and tools whose pipelines have bound parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from .._internal.concurrency import gather_bounded as batch_in_order
from .._internal.message_text import format_repr, suggest_name
from .._internal.sync_bridge import run_blocking
from .._internal.yaml_io import YamlSerializable, load_section
from ..core.component import DeclaredComponent, Input, component
from ..core.tools.tool import Tool
from ..errors import UsageError
from . import diagram, graph
from .execution import Execution, Plan, make_plan
from .graph import ROOT, Node

Params = Mapping[str, Mapping[str, Any]]


class Pipeline(YamlSerializable):
    """A graph of components. Each takes its inputs, by name, from the values visible after those before it.

    `inputs` are the values that a run may be given. The root `"Query"` provides them: `query`, or `file_paths` if the
    nodes call the root `"File"`. `nodes` come from a definition, in any order; in code, use `add_node`. Raises
    `UsageError` with all problems.

    A pipeline is stateless. It may be a node of another pipeline, and a tool.
    """

    def __init__(
        self, nodes: Iterable[Node] = (), *, name: str = "pipeline", inputs: Sequence[str] | None = None
    ) -> None:
        self.name = name
        nodes = list(nodes)
        inputs = graph.list_inputs(nodes) if inputs is None else inputs
        self.inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        graph.raise_problems(name, graph.problems(nodes, self.inputs))
        self._nodes: dict[str, Node] = {}
        self._visible: dict[str, graph.Visible] = {ROOT: frozenset(self.inputs)}
        self._plans: dict[tuple[str, ...], Plan] = {}
        for node in graph.sort_topologically(nodes):
            self._add(node)

    @classmethod
    def load_from_yaml(cls, path: str | Path, pipeline_name: str | None = None) -> Self:
        """Load a pipeline from a file; `pipeline_name` selects one of several. Raises `DataError` and `UsageError`."""
        pipeline: Self = load_section(path, "pipelines", pipeline_name)
        return pipeline

    def __repr__(self) -> str:
        return format_repr(self, self.name, inputs=list(self.inputs), nodes=list(self._nodes))

    def state(self) -> Any:
        """Return the settings, which may have changed since construction."""
        return [(node.name, node.wires) for node in self._nodes.values()]

    # ── building ─────────────────────────────────────────────────────────────────────────────────

    def add_node(
        self, component: Any, name: str | None = None, inputs: Sequence[str] | Mapping[str, str] | None = None
    ) -> None:
        """Add a component: a function, or an object with `run` or `run_async`. Raises `UsageError`.

        `inputs` names existing nodes: `["Query"]`, `["Classify.output_2"]`, or for single values `{"text":
        "Summary.results"}`. By default the node follows the last one added, or the root. `name` defaults to the
        component's.
        """
        name = name if name is not None else self._find_free_name(component)
        if inputs is None:
            inputs = [next(reversed(self._nodes), ROOT)]
        node = Node(component, name, inputs)
        found = [*graph.find_name_problems(name, self._nodes), *graph.find_wire_errors(node)]
        found = found or list(graph.find_wire_problems(node, self._nodes, self._visible))
        found = found or list(graph.find_missing_inputs(node, self._visible))
        graph.raise_problems(self.name, found)
        self._add(node)

    def _add(self, node: Node) -> None:
        if isinstance(node.something, Pipeline) and node.something.holds(self):
            raise UsageError(f"pipeline {self.name!r}: node {node.name!r} would make it contain itself")
        self._nodes[node.name] = node
        self._visible[node.name] = graph.find_visible_after(node, self._visible)
        self._plans.clear()

    def _find_free_name(self, something: Any) -> str:
        name = component(something).name.replace(".", "_")
        names = [name, *(f"{name}_{number}" for number in range(2, len(self._nodes) + 3))]
        return next(free for free in names if free not in self._nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the order they were added."""
        return tuple(self._nodes.values())

    def holds(self, other: Pipeline) -> bool:
        """Return whether `other` is this pipeline or a node in it, at any depth."""
        inner = (node.something for node in self._nodes.values() if isinstance(node.something, Pipeline))
        return other is self or any(pipeline.holds(other) for pipeline in inner)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    async def run_async(
        self,
        query: Any = None,
        *,
        params: Params | None = None,
        targets: str | Sequence[str] | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """Run it; what is visible where it ends, by name.

        Raises `UsageError` for an invalid input, and `NodeFailed` for the first node that fails; the others are
        cancelled. `values` are further inputs. `params`, by node, override a node's inputs: `{"Retriever": {"top_k":
        3}}`. With `targets`, only these nodes and those before them run.
        """
        values = {name: value for name, value in (values | {"query": query}).items() if value is not None}
        unknown = [name for name in values if name not in self.inputs]
        if unknown:
            takes = ", ".join(self.inputs) or "nothing"
            raise UsageError(
                f"pipeline {self.name!r} has no input {unknown[0]!r} (its inputs are: {takes}); see Pipeline(inputs=…)"
            )
        self._check_params(params or {})
        return await Execution(self._plan(targets), values, params or {}).finish()

    def run(
        self,
        query: Any = None,
        *,
        params: Params | None = None,
        targets: str | Sequence[str] | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, params=params, targets=targets, **values))

    async def run_batch_async(
        self, queries: Iterable[Any | Mapping[str, Any]], *, at_once: int = 4, **options: Any
    ) -> list[dict[str, Any]]:
        """Call `run_async` for each query, at most `at_once` at a time. Results are in the order of the queries.

        A query may be a mapping of several inputs. `options` are those of `run_async`, shared by all.
        """

        async def one(query: Any) -> dict[str, Any]:
            values = dict(query) if isinstance(query, Mapping) else {"query": query}
            return await self.run_async(**(options | values))

        return await batch_in_order(one, queries, at_once)

    def run_batch(
        self, queries: Iterable[Any | Mapping[str, Any]], *, at_once: int = 4, **options: Any
    ) -> list[dict[str, Any]]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(queries, at_once=at_once, **options))

    def _plan(self, targets: str | Sequence[str] | None) -> Plan:
        wanted = (targets,) if isinstance(targets, str) else tuple(targets or ())
        if wanted not in self._plans:
            self._check_names(wanted, "targets")
            if not self._nodes:
                raise UsageError(f"pipeline {self.name!r} has no nodes; add some with add_node(component)")
            self._plans[wanted] = make_plan(self._nodes, wanted)
        return self._plans[wanted]

    def _check_params(self, params: Params) -> None:
        self._check_names(params, "params")
        for name, given in params.items():
            if not isinstance(given, Mapping):
                raise UsageError(f"pipeline {self.name!r}: want params by node: {{{name!r}: {{'parameter': value}}}}")
            try:
                self._nodes[name].component.check_names(given)
            except UsageError as error:
                raise UsageError(f"pipeline {self.name!r}: params: node {error}") from None

    def _check_names(self, names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in self._nodes:
                takers = [node.name for node in self.nodes if what == "params" and name in node.component.inputs]
                hint = f"{takers[0]!r} has it: params={{{takers[0]!r}: {{{name!r}: …}}}}" if takers else ""
                hint = hint or suggest_name(name, self._nodes)
                raise UsageError(f"pipeline {self.name!r}: {what}: no node {name!r}; {hint}")

    # ── seen from outside ────────────────────────────────────────────────────────────────────────

    @property
    def output_variable(self) -> str:
        """The name of the main output, which a tool shows the model: that of the last node."""
        return self._find_ends()[-1].component.output if self._nodes else "results"

    @property
    def effects(self) -> str:
        """`read` if all nodes declare that they change nothing, otherwise `once`."""
        reads = all(getattr(node.something, "effects", "") == "read" for node in self.nodes)
        return "read" if reads and self.nodes else "once"

    @property
    def output_variables(self) -> tuple[str, ...]:
        """The main outputs of all nodes at which the pipeline ends."""
        return tuple(dict.fromkeys(node.component.output for node in self._find_ends())) or ("results",)

    def as_component(self) -> DeclaredComponent:
        """Return this pipeline's declaration as a component of another."""
        needs = graph.find_root_values(self._nodes.values(), self.inputs)
        inputs = {name: Input(required=name in needs) for name in self.inputs}
        inputs |= {"params": Input(required=False, default=None)}
        visible = [self._visible[node.name] for node in self._find_ends()]
        known = [names for names in visible if names is not None]
        outputs = {name: Any for names in known for name in names} if len(known) == len(visible) else None
        return DeclaredComponent(self.name, self.run_async, inputs, outputs, output=self.output_variable, branches=1)

    def _find_ends(self) -> list[Node]:
        used = {source for node in self._nodes.values() for source in node.sources}
        return [node for name, node in self._nodes.items() if name not in used]

    def draw(self) -> str:
        """Draw a diagram as text: layer by layer, from the root down."""
        return diagram.draw_text(self.nodes)

    def draw_svg(self) -> str:
        """Draw a diagram as SVG."""
        return diagram.draw_svg(self.nodes)

    def _repr_svg_(self) -> str:
        return self.draw_svg()


@dataclass(frozen=True)
class BoundPipeline:
    """A pipeline that runs with `params`, by node."""

    pipeline: Pipeline
    params: Params

    @property
    def output_variable(self) -> str:
        """The name of its main output."""
        return self.pipeline.output_variable

    async def run_async(self, query: str) -> dict[str, Any]:
        """What the pipeline gives for `query`."""
        return await self.pipeline.run_async(query, params=self.params)


def bind_parameters(tools: Iterable[Tool], params: Mapping[str, Mapping[str, Any]]) -> list[Tool]:
    """Return `tools`, with each pipeline bound to the `params` for its nodes.

    Raises `UsageError` for a node that no pipeline has.
    """
    bound, known = list[Tool](), set[str]()
    for tool in tools:
        own: dict[str, Mapping[str, Any]] = {}
        if isinstance(tool.something, Pipeline):
            names = {node.name for node in tool.something.nodes}
            known |= names
            own = {name: given for name, given in params.items() if name in names}
        bound.append(replace(tool, something=BoundPipeline(tool.something, own)) if own else tool)
    if unknown := [name for name in params if name not in known]:
        there = suggest_name(unknown[0], sorted(known))
        raise UsageError(f"params: no pipeline among the tools has a node {unknown[0]!r}; {there}")
    return bound
