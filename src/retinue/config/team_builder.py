"""Builds groups and chains from their specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isroutine
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget
from ..core.loop.effects import Human
from ..core.protocols import Model
from ..core.tools.tool import Tool
from ..errors import UsageError
from ..models import PromptModel
from ..teams import Chain, HumanGate, MessageGroup, ModelChoice, Role, StateField, When
from ..teams.graph_check import GraphOutline
from ..teams.message_group import MAX_RUNS, MAX_VISITS, NO_STEPS, Selector
from .problems import KeyPath, Source
from .references import list_models
from .specs import BudgetSpec, ChainSpec, ConditionalSpec, FieldSpec, FileSpec, GroupSpec, RoleSpec, ToolEntry
from .tool_files import build_entry_tools


@dataclass(frozen=True, slots=True)
class TeamBuilder:
    """Builds groups and chains. `part` returns what the file defines under a name; `human` decides at gates.

    Every method raises `UsageError` and `DataError`.
    """

    spec: FileSpec
    part: Callable[[str], Any]
    human: Human | None

    def group(self, group: GroupSpec, path: KeyPath) -> Agent:
        """Return the compiled group."""
        made = MessageGroup(
            group.name,
            state={
                name: self._build_field(field, (*path, "state", name)) for name, field in (group.state or {}).items()
            },
            answer=group.answer or "",
            model=self._find_model(group),
            human=self.human,
            budget=_build_budget(group.budget),
            max_visits=group.max_visits or MAX_VISITS,
            max_runs=group.max_runs or MAX_RUNS,
        )
        for at, role in enumerate(group.roles):
            made.add_role(self._build_role(role, (*path, "roles", at)))
        for edge in group.edges:
            made.add_edge(edge.head, edge.tail, on_error=edge.on == "error")
        for at, edges in enumerate(group.conditional_edges or ()):
            selector = self._build_selector(edges, (*path, "conditional_edges", at, "selector"))
            made.add_conditional_edges(edges.head, edges.tails, selector)
        return made.compile()

    def build_chain(self, chain: ChainSpec, path: KeyPath) -> Agent:
        """Return the chain."""
        steps = [self._build_step(step, (*path, "steps", at)) for at, step in enumerate(chain.steps)]
        return Chain(steps, name=chain.name, human=self.human, budget=_build_budget(chain.budget))

    def _build_step(self, step: str | RoleSpec, path: KeyPath) -> Any:
        return self.part(step) if isinstance(step, str) else self._build_role(step, path)

    def _build_role(self, role: RoleSpec, path: KeyPath) -> Role | HumanGate:
        if role.human is not None:
            return HumanGate(role.name, role.human.shows, role.human.question, role.max_visits)
        something = self._load_callable(role.callable_api, path) if role.callable_api else self.part(role.part)
        return Role(
            role.name,
            something,
            role.input,
            role.output or "",
            role.description or "",
            role.max_visits,
            role.effects,
            role.timeout,
        )

    def _load_callable(self, api: str, path: KeyPath) -> Any:
        """Return what `callable_api` names: a function of a file as it is, anything else as a tool."""
        entry, folder = ToolEntry(callable_api=api), Path(self.spec.source.file).parent
        source = Source(self.spec.source.file, values={("role", "callable_api"): self.spec.source.place(path)})
        (made,) = build_entry_tools({"role": entry}, folder, source)
        return made.something if isroutine(made.something) and made.takes is None and ".py:" in api else made

    def _build_field(self, field: str | FieldSpec, path: KeyPath) -> StateField:
        if isinstance(field, str):
            return StateField(field)
        reducer: Any = field.reducer
        if ".py:" in field.reducer:
            reducer = self._load_callable(field.reducer, path)
        given = {"default": field.default} if field.default is not None else {}
        return StateField(field.type, reducer, **given)

    def _build_selector(self, edges: ConditionalSpec, path: KeyPath) -> Selector:
        selector = edges.selector
        if isinstance(selector, str):
            return selector
        if selector.function:
            called = self._load_callable(selector.function, path)
            if isinstance(called, Tool) and not isroutine(called.something):
                raise UsageError(f"{selector.function} cannot select: want a function of the state")
            chosen: Selector = called
            return chosen
        if selector.when:
            return When([(case.if_, case.to) for case in selector.when], selector.otherwise or "")
        asked: Mapping[str, Any] = {"question": selector.question} if selector.question else {}
        return ModelChoice(**asked, shows=tuple(selector.shows or ()))

    def _find_model(self, group: GroupSpec) -> Model | None:
        for name in list_models(group):
            known = any(one.name == name for one in self.spec.components or ())
            model: Model = self.part(name) if known else PromptModel(name)
            return model
        return None


def outline_group(group: GroupSpec) -> GraphOutline:
    """Return a group by the names of its roles."""
    branches = [
        (one.head, list(one.tails.values()) if isinstance(one.tails, dict) else one.tails)
        for one in group.conditional_edges or ()
    ]
    edges = [(edge.head, edge.tail, edge.on == "error") for edge in group.edges]
    return GraphOutline([role.name for role in group.roles], edges, branches)


def _build_budget(spec: BudgetSpec | None) -> Budget:
    given = {} if spec is None else spec.model_dump(exclude_unset=True)
    return Budget(**{"steps": None, **given}) if given else NO_STEPS
