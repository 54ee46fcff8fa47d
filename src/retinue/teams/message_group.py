"""`MessageGroup`: roles and the edges between them, compiled to an agent that walks them; `Chain`: roles in a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
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
from .graph_check import GraphOutline, find_selector_problems, find_structure_problems, find_unset_reads, plan_roles
from .graph_flow import Branch, GraphFlow, GraphPlan
from .role import END, START, HumanGate, Role, as_tool
from .selectors import ModelChoice, When, find_word
from .shared_state import OWN, StateField

Selector = Callable[..., Any] | Tool | When | ModelChoice | str
Tails = Iterable[str] | Mapping[Any, str]
MAX_VISITS = 10
NO_STEPS = Budget(steps=None)  # roles are counted by visits
MAX_RUNS = 100


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
        self._conditional: list[tuple[str, Mapping[str, str], When | ModelChoice | Tool]] = []

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
        self._conditional.append((head, words, _make_selector(selector, words)))
        return self

    def compile(self) -> Agent:
        """Return an agent that walks the graph as it is now; roles and edges added later need another `compile`.

        Raises `UsageError` with all mistakes: unknown and unreachable roles, no way to the end, fields that do not fit.
        """
        plan, tools = self.plan()
        model: Any = self._model or NoModel()
        strategy = GraphFlow(plan)
        return Agent(model, tools, strategy=strategy, name=self.name, budget=self._budget, human=self._human)

    def text(self) -> str:
        """Return a drawing of the graph as text."""
        return graph_diagram.draw_text(self._build_outline())

    def svg(self) -> str:
        """Return a drawing of the graph as SVG."""
        return graph_diagram.draw_svg(self._build_outline())

    def _build_outline(self) -> GraphOutline:
        branches = [(head, tuple(tails.values())) for head, tails, _ in self._conditional]
        return GraphOutline([role.name for role in self._roles], self._edges, branches)

    def plan(self) -> tuple[GraphPlan, list[Tool]]:
        """Return the plan, and the tools of its roles and selectors. Raises `UsageError` as `compile` does."""
        structural = [problem.message for problem in find_structure_problems(self._build_outline())]
        found = plan_roles(self._roles, self._fields, self._limits[0])
        branches, selecting = self._build_branches()
        plan = GraphPlan(
            self.name,
            found.roles,
            tuple((head, tail) for head, tail, on_error in self._edges if not on_error),
            tuple((head, tail) for head, tail, on_error in self._edges if on_error),
            branches,
            found.fields,
            self._answer or ("answer" if "answer" in found.fields else ""),
            self._limits[1],
        )
        problems = [*structural, *found.problems]
        if self._answer and self._answer not in plan.fields:
            problems.append(f"answer: no field {self._answer!r}; its fields are: {', '.join(plan.fields)}")
        if self._model is None and any(isinstance(one.selector, ModelChoice) for one in branches):
            problems.append("a model is to choose, but the group has none; say model=…")
        problems += find_selector_problems(plan)
        problems += () if structural else find_unset_reads(plan)
        if problems:
            lines = "".join(f"\n- {problem}" for problem in dict.fromkeys(problems))
            raise UsageError(f"the group {self.name!r} cannot be compiled:{lines}")
        return plan, [*found.tools, *selecting]

    def _build_branches(self) -> tuple[tuple[Branch, ...], list[Tool]]:
        """Return the conditional edges, and the tools of the functions that select."""
        taken, tools, branches = {role.name for role in self._roles}, list[Tool](), list[Branch]()
        for head, tails, selector in self._conditional:
            if isinstance(selector, Tool):
                name = _choose_free_name(f"select_{head}"[:60], taken)
                taken.add(name)
                tools.append(replace(selector, name=name))
                branches.append(Branch(head, tails, None, name))
            else:
                branches.append(Branch(head, tails, selector))
        return tuple(branches), tools


def _declare_field(name: str, type_: Any) -> StateField:
    if name in OWN or not name.isidentifier():
        why = "is kept by the graph" if name in OWN else "is not a name"
        raise UsageError(f"state: {name!r} {why}; choose another name")
    try:
        return type_ if isinstance(type_, StateField) else StateField(type_)
    except UsageError as error:
        raise UsageError(f"state: {name}: {error}") from None


def _make_selector(selector: Selector, words: Mapping[str, str]) -> When | ModelChoice | Tool:
    if isinstance(selector, When | ModelChoice):
        return selector
    if isinstance(selector, str):
        return When([(_write_condition(selector, word), word) for word in words])
    if not callable(selector) and not isinstance(selector, Tool):
        raise UsageError(f"a selector: want a function, an expression, When or ModelChoice, not {selector!r:.80}")
    function = selector.something if isinstance(selector, Tool) else selector
    made = as_tool(Role("selector", cast(Any, function), effects="read"))
    if list(made.signature.parameters.get("properties", {})) != ["state"]:
        shown = getattr(function, "__name__", type(function).__name__)
        raise UsageError(f"the selector {shown}: want one parameter, `state`: def {shown}(state: dict) -> str")
    return replace(made, takes=build_signature("selector", {"state": Argument(dict)}))


def _write_condition(expression: str, word: str) -> str:
    """Return an expression that is true if the value of `expression` is what `word` stands for."""
    if word in ("true", "false"):
        return f"({expression})" if word == "true" else f"not ({expression})"
    plain = word == "null" or word.lstrip("-").replace(".", "").isdigit()
    quote = "'" if '"' in word else '"'
    return f"({expression}) == {word if plain else quote + word + quote}"


def _choose_free_name(name: str, taken: Collection[str]) -> str:
    names = (name, *(f"{name}_{number}" for number in range(2, 1000)))
    return next(free for free in names if free not in taken)


class Chain(Agent):
    """An agent that runs steps one after another; the last one's output is its answer.

    >>> Chain([str.strip, str.upper, lambda text: f"{text}!"]).run(" hello ").answer
    'HELLO!'

    Args:
        steps: Each is a `Role`, a `HumanGate`, or what a role can be: an agent, a function, a component or a pipeline.
            The first gets the question, and each other one what the step before it said, or the fields that a `Role`
            names. A step without a name is called after its function, agent or type.

    Raises `UsageError` if there are no steps, and as `MessageGroup.compile` does.
    """

    def __init__(
        self, steps: Iterable[Any], *, name: str = "chain", human: Human | None = None, budget: Budget = NO_STEPS
    ) -> None:
        steps = list(steps)
        group = MessageGroup(name, max_visits=1, max_runs=len(steps))
        names: list[str] = []
        for step in steps:
            role = step if isinstance(step, Role | HumanGate) else Role(_choose_step_name(step, names), step)
            names.append(role.name)
            group.add_role(role)
        if not names:
            raise UsageError(f"the chain {name!r} has no steps; want some: Chain([agent, function])")
        for head, tail in pairwise([START, *names, END]):
            group.add_edge(head, tail)
        plan, tools = group.plan()
        super().__init__(NoModel(), tools, strategy=GraphFlow(plan, "chain"), name=name, human=human, budget=budget)


def _choose_step_name(step: Any, taken: Collection[str]) -> str:
    given = getattr(step, "__name__", None) or getattr(step, "name", None) or type(step).__name__
    plain = "".join(one if one.isascii() and one.isalnum() else "_" for one in str(given)).strip("_")[:40] or "step"
    return _choose_free_name(plain, [*taken, START, END])
