"""`MessageGroup`: roles and the edges between them, compiled to an agent that walks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from ..agent import Agent
from ..core.budgets import Budget
from ..core.loop.effects import Human
from ..core.protocols import Model
from ..core.tools.signature import Argument, build_signature
from ..core.tools.tool import Tool
from ..errors import UsageError
from ..executor import NoModel
from . import graph_diagram
from .graph_check import (
    GraphOutline,
    GraphProblem,
    RolePlans,
    find_selector_problems,
    find_structure_problems,
    plan_roles,
    unset_reads,
)
from .graph_flow import GraphFlow
from .graph_plan import Branch, GraphPlan, reach_of
from .role import START, HumanGate, Role, as_tool
from .selectors import ModelChoice, When, find_word
from .shared_state import OWN, StateField, make_field

Selector = Callable[..., Any] | Tool | When | ModelChoice | str
Tails = Iterable[str] | Mapping[Any, str]
MAX_VISITS = 10
NO_STEPS = Budget(steps=None)  # roles are counted by visits
MAX_RUNS = 100


@dataclass(frozen=True, slots=True)
class _Conditional:
    head: str
    tails: Mapping[str, str]
    selector: When | ModelChoice | Tool


class MessageGroup:
    """Roles that work together along edges (OPEA's RFC on agents). `compile` makes an agent of it.

    >>> group = MessageGroup("greeting")
    >>> _ = group.add_role("greet", lambda question: f"Hello, {question}!")
    >>> _ = group.add_edge(START, "greet").add_edge("greet", END)
    >>> group.compile().run("Ada").answer
    'Hello, Ada!'

    Args:
        name: The name of the compiled agent.
        state: The fields that the roles share: their types, or `StateField`s. The output of a role without a field of
            that name gets one for any value. `question`, `history`, `errors` and `visits` are always there.
        answer: The field of the graph's answer; by default `answer` if there is such a field, or what the last role
            said.
        model: Chooses where a selector is a `ModelChoice`: a `Model`, or a name that `PromptModel` accepts.
        human: As for an `Agent`: decides at the human gates.
        budget: Of the whole graph; its `steps` are the choices of the model.
        max_visits: How often each role may run, which bounds cycles.
        max_runs: How often all roles together may run.

    Raises `UsageError` for fields that cannot be.
    """

    def __init__(  # noqa: PLR0913 -- the parts a group is put together from
        self,
        name: str = "group",
        *,
        state: Mapping[str, Any] | None = None,
        answer: str = "",
        model: Model | str | None = None,
        human: Human | None = None,
        budget: Budget = NO_STEPS,
        max_visits: int = MAX_VISITS,
        max_runs: int = MAX_RUNS,
    ) -> None:
        self.name = name
        self._fields = {field: _declare_field(field, type_) for field, type_ in (state or {}).items()}
        self._answer = answer
        self._model = model
        self._human = human
        self._budget = budget
        self._limits = max_visits, max_runs
        self._roles: list[Role | HumanGate] = []
        self._edges: list[tuple[str, str, bool]] = []
        self._conditional: list[_Conditional] = []

    def add_role(self, role: Role | HumanGate | str, something: Any = None, **options: Any) -> Self:
        """Add a role: a `Role`, a `HumanGate`, or a name and what it does, with the options of `Role`.

        Raises `UsageError` as `Role` does.
        """
        if isinstance(role, str):
            if something is None:
                raise UsageError(f"role {role}: want what it does: add_role({role!r}, agent_or_function)")
            role = Role(role, something, **options)
        self._roles.append(role)
        return self

    def add_edge(self, head: str, tail: str, *, on_error: bool = False) -> Self:
        """Lead from the role `head` to the role `tail`, or with `on_error` only if `head` failed. Several edges from a
        role run their tails side by side; a role to which several lead waits for them."""
        self._edges.append((head, tail, on_error))
        return self

    def add_conditional_edges(self, head: str, tails: Tails, selector: Selector) -> Self:
        """Lead from `head` to those of `tails` that `selector` chooses: one, or a list.

        Args:
            tails: The candidates, or candidates by the word that stands for them: `{True: "publish", False: "draft"}`.
            selector: A function of the state (`should_continue(state)`), which is run as a tool, so its choice is in
                the log; an expression over fields whose value is the choice; `When`; or a `ModelChoice`.

        Raises `UsageError` for an expression that cannot be read.
        """
        tails = (tails,) if isinstance(tails, str) else tails
        pairs = tails.items() if isinstance(tails, Mapping) else ((tail, tail) for tail in tails)
        words = {find_word(word): tail for word, tail in pairs}
        self._conditional.append(_Conditional(head, words, _make_selector(selector, words)))
        return self

    def compile(self) -> Agent:
        """Return an agent that walks the graph as it is now; roles and edges added later need another `compile`.

        Raises `UsageError` with all mistakes: unknown and unreachable roles, no way to the end, fields that do not fit.
        """
        plan, tools = self.plan()
        model: Any = self._model or NoModel()
        return Agent(
            model, tools, strategy=GraphFlow(plan), name=self.name, budget=self._budget, human=self._human
        )  # fmt: skip

    def text(self) -> str:
        """Return a drawing of the graph as text."""
        return graph_diagram.draw_text(self._build_outline())

    def svg(self) -> str:
        """Return a drawing of the graph as SVG."""
        return graph_diagram.draw_svg(self._build_outline())

    def _build_outline(self) -> GraphOutline:
        branches = [(one.head, tuple(one.tails.values())) for one in self._conditional]
        return GraphOutline([role.name for role in self._roles], self._edges, branches)

    def plan(self) -> tuple[GraphPlan, list[Tool]]:
        """Return the plan, and the tools of its roles and selectors. Raises `UsageError` as `compile` does."""
        outline = self._build_outline()
        found = plan_roles(self._roles, self._fields, self._limits[0])
        problems = [*find_structure_problems(outline), *found.problems]
        names = [role.name for role in self._roles]
        branches, selecting = self._build_branches(names)
        answer = self._answer or ("answer" if "answer" in found.fields else "")
        plan = GraphPlan(
            self.name,
            found.roles,
            tuple((head, tail) for head, tail, on_error in self._edges if not on_error),
            tuple((head, tail) for head, tail, on_error in self._edges if on_error),
            branches,
            found.fields,
            answer,
            self._limits[1],
        )
        problems += self._find_more_problems(plan, found, structural=len(problems) > len(found.problems))
        if problems:
            lines = "".join(f"\n- {problem.message}" for problem in dict.fromkeys(problems))
            raise UsageError(f"the group {self.name!r} cannot be compiled:{lines}")
        return plan, [*found.tools, *selecting]

    def _build_branches(self, names: Iterable[str]) -> tuple[tuple[Branch, ...], list[Tool]]:
        taken, tools, branches = set(names), list[Tool](), list[Branch]()
        for one in self._conditional:
            if not isinstance(one.selector, Tool):
                branches.append(Branch(one.head, one.tails, one.selector))
                continue
            name = next(free for free in _list_free_names(f"select_{one.head}"[:60]) if free not in taken)
            taken.add(name)
            tools.append(replace(one.selector, name=name))
            branches.append(Branch(one.head, one.tails, None, name))
        return tuple(branches), tools

    def _find_more_problems(self, plan: GraphPlan, found: RolePlans, *, structural: bool) -> Iterable[GraphProblem]:
        if self._answer and self._answer not in plan.fields:
            yield GraphProblem((), f"answer: no field {self._answer!r}; its fields are: {', '.join(plan.fields)}")
        if self._model is None and any(isinstance(one.selector, ModelChoice) for one in plan.branches):
            yield GraphProblem((), "a model is to choose, but the group has none; say model=…")
        for index, branch in enumerate(plan.branches):
            for problem in find_selector_problems(branch.selector, branch.tails, plan.fields):
                yield GraphProblem(("branch", index), f"the conditional edges from {branch.head!r}: {problem}")
        if structural:
            return
        tails = {name: [tail for head, tail in plan.list_links() if head == name] for name in (START, *found.roles)}
        for name, field in unset_reads(found.roles, found.fields, reach_of(tails)):
            index = list(found.roles).index(name)
            problem = f"role {name}: it reads the field {field!r}, which nothing before it sets"
            yield GraphProblem(("role", index), problem)


def _declare_field(name: str, type_: Any) -> StateField:
    if name in OWN or not name.isidentifier():
        why = "is kept by the graph" if name in OWN else "is not a name"
        raise UsageError(f"state: {name!r} {why}; choose another name")
    try:
        return make_field(type_)
    except UsageError as error:
        raise UsageError(f"state: {name}: {error}") from None


def _make_selector(selector: Selector, words: Mapping[str, str]) -> When | ModelChoice | Tool:
    if isinstance(selector, When | ModelChoice):
        return selector
    if isinstance(selector, str):
        return When([(_write_equality(selector, word), word) for word in words])
    if not callable(selector) and not isinstance(selector, Tool):
        raise UsageError(f"a selector: want a function, an expression, When or ModelChoice, not {selector!r:.80}")
    function = selector.something if isinstance(selector, Tool) else selector
    role = Role("selector", cast(Any, function), effects="read")
    made = replace(as_tool(role), takes=build_signature("selector", {"state": Argument(dict)}))
    if list(as_tool(role).signature.parameters.get("properties", {})) != ["state"]:
        shown = getattr(function, "__name__", type(function).__name__)
        raise UsageError(f"the selector {shown}: want one parameter, `state`: def {shown}(state: dict) -> str")
    return made


def _write_equality(expression: str, word: str) -> str:
    """Return an expression that is true if the value of `expression` is what `word` stands for."""
    if word in ("true", "false"):
        return f"({expression})" if word == "true" else f"not ({expression})"
    plain = word == "null" or word.lstrip("-").replace(".", "").isdigit()
    quote = "'" if '"' in word else '"'
    return f"({expression}) == {word if plain else quote + word + quote}"


def _list_free_names(name: str) -> Iterable[str]:
    yield name
    yield from (f"{name}_{number}" for number in range(2, 1000))
