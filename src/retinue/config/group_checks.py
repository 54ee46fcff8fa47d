"""Checks of groups and chains: roles, edges, selectors and fields. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from ..errors import UsageError
from ..teams.graph_check import GraphOutline, GraphProblem, find_structure_problems
from ..teams.role import END, START, check_role_name
from ..teams.selectors import ExpressionError, parse_expression
from ..teams.shared_state import OWN, REDUCERS, StateField
from .component_checks import SECTIONS, check_circles, check_reference, index_nodes
from .problems import Found, KeyPath, Node, describe_unknown, format_value
from .specs import FieldType
from .tool_files import parse_callable

_KINDS = ("agent", "pipeline", "component", "callable_api", "human")
_AGENTS = ("RemoteAgent", "A2AAgent")  # components that are agents
_CHOOSERS = ("when", "function", "model", "question")
_ALIASES = {"head": "head_node", "tail": "tail_node", "tails": "tail_nodes"}
_SELECTORS = ("selector", "should_continue", "Should_Continue")


def check_groups(root: Node, folder: Path) -> Iterator[Found]:
    """Check every group and chain."""
    sections = {section: index_nodes(root, section) for section in SECTIONS}
    for group in root.at("groups"):
        yield from _Group(group, sections, folder).find_problems()
    for chain in root.at("chains"):
        for step in chain.at("steps"):
            if step.text:
                yield from _check_part(step, step.text, sections)
            elif isinstance(step.value, dict):
                yield from _check_role(step, sections, folder)
        yield from _check_repeated(chain)
    yield from _check_circles(root)


class _Group:
    """The checks of one group."""

    def __init__(self, group: Node, sections: Mapping[str, Mapping[str, Node]], folder: Path) -> None:
        self._group = group
        self._sections = sections
        self._folder = folder
        self._roles = list(group.at("roles"))
        self._edges = [_Edge(node) for node in group.at("edges")]
        self._branches = [_Edge(node) for node in group.at("conditional_edges")]
        written = [name for role in self._roles for name in _list_texts(role.at("output")) or [role.name]]
        declared = [str(one.path[-1]) for one in group.at("state")]
        self._fields = list(dict.fromkeys([*OWN, *declared, *filter(None, written)]))

    def find_problems(self) -> Iterator[Found]:
        """Yield all problems."""
        for role in self._roles:
            yield from _check_role(role, self._sections, self._folder)
            yield from self._check_reads(role)
        yield from self._check_state()
        answer = self._group.at("answer")
        if answer.text and answer.text not in self._fields:
            yield Found(answer.path, f"answer: {describe_unknown('field', answer.text, self._fields)}")
        for branch in self._branches:
            yield from self._check_selector(branch)
        yield from check_reference(self._group.at("model"), self._sections["components"], ("PromptModel",))
        if self._is_drawn():
            outline = GraphOutline(
                [role.name for role in self._roles],
                [(edge.head.text, edge.tail.text, edge.on_error) for edge in self._edges],
                [(branch.head.text, branch.candidates) for branch in self._branches],
            )
            yield from (Found(*self._locate(problem)) for problem in find_structure_problems(outline))

    def _is_drawn(self) -> bool:
        """Return whether all edges have a shape that says where they lead."""
        named = bool(self._roles) and all(role.name for role in self._roles)
        branched = all(one.head.text and isinstance(one.tails.value, list | dict) for one in self._branches)
        return named and branched and all(edge.head.text and edge.tail.text for edge in self._edges)

    def _locate(self, problem: GraphProblem) -> tuple[KeyPath, str]:
        """Return the path of what a problem is about, and its message."""
        match problem.where:
            case ("role", int(index)):
                return self._roles[index].at("name").path, problem.message
            case ("edge", int(index), "head" | "tail" as end):
                edge = self._edges[index]
                return (edge.head if end == "head" else edge.tail).path, problem.message
            case ("edge", int(index)):
                return self._edges[index].node.path, problem.message
            case ("branch", int(index), "head"):
                return self._branches[index].head.path, problem.message
            case ("branch", int(index), *_):
                return self._branches[index].tails.path, problem.message
        return self._group.at("name").path, f"the group {format_value(self._group.name)}: {problem.message}"

    def _check_reads(self, role: Node) -> Iterator[Found]:
        given = role.at("input")
        nodes = [given] if given.text else list(given)
        for node in [*nodes, role.at("human").at("shows")]:
            if node.text and node.text not in (*self._fields, "state"):
                yield Found(node.path, f"input: {describe_unknown('field', node.text, self._fields)}")
        for name in _list_texts(role.at("output")):
            if name in OWN:
                problem = f"output: the field {name!r} is kept by the graph; choose another name"
                yield Found(role.at("output").path, problem)

    def _check_state(self) -> Iterator[Found]:
        for field in self._group.at("state"):
            name = str(field.path[-1])
            if name in OWN or not name.isidentifier():
                why = "is kept by the graph" if name in OWN else "is not a name"
                yield Found(field.path, f"{name!r} {why}; choose another name", at_key=True)
            type_, reducer = field.at("type").text or "any", field.at("reducer")
            if field.text or type_ not in get_args(FieldType):
                continue
            if ".py:" in reducer.text:
                yield from _check_callable(reducer, self._folder)
            elif reducer.text and reducer.text not in REDUCERS:
                yield Found(reducer.path, f"reducer: {describe_unknown('reducer', reducer.text, REDUCERS)}")
            else:
                yield from _check_field(field, type_, reducer.text or "replace")

    def _check_selector(self, branch: _Edge) -> Iterator[Found]:
        selector, words = branch.selector, branch.words
        if selector.text:
            yield from self._check_expression(selector)
            return
        if not isinstance(selector.value, dict):
            return
        given = [key for key in _CHOOSERS if selector.at(key).value is not None]
        if not given:
            yield Found(selector.path, "selector: needs 'when', 'function', or a 'question' for a model")
        elif len(given) > 1 and given != ["model", "question"]:
            yield Found(selector.at(given[1]).path, f"both {given[0]!r} and {given[1]!r} choose; keep one", at_key=True)
        yield from _check_callable(selector.at("function"), self._folder)
        for case in selector.at("when"):
            yield from self._check_expression(case.at("if"))
            yield from _check_word(case.at("to"), words)
        yield from _check_word(selector.at("otherwise"), words)
        for field in selector.at("shows"):
            if field.text and field.text not in self._fields:
                yield Found(field.path, f"shows: {describe_unknown('field', field.text, self._fields)}")
        yield from self._check_model(selector)

    def _check_model(self, selector: Node) -> Iterator[Found]:
        own, shared = selector.at("model"), self._group.at("model")
        yield from check_reference(own, self._sections["components"], ("PromptModel",))
        models = [one for one in (shared, *(branch.selector.at("model") for branch in self._branches)) if one.text]
        if own.text and own.text != models[0].text:
            yield Found(own.path, f"model: a group has one model, and {format_value(models[0].text)} is it")
        if selector.at("question").text and not models:
            yield Found(selector.path, "a model is to choose, but the group has none; needs 'model'")

    def _check_expression(self, text: Node) -> Iterator[Found]:
        if not text.text:
            return
        try:
            expression = parse_expression(text.text)
        except ExpressionError as error:
            yield Found(text.path, f"the expression: {error}")
            return
        for name in expression.fields:
            if name not in self._fields:
                yield Found(text.path, f"the expression: {describe_unknown('field', name, self._fields)}")


class _Edge:
    """An edge or conditional edges, under any of their keys."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.head, self.tail, self.tails = (_find_first_under(node, key, other) for key, other in _ALIASES.items())
        self.selector = _find_first_under(node, *_SELECTORS)
        self.on_error = node.at("on").text == "error"

    @property
    def candidates(self) -> list[str]:
        """The candidates."""
        return [tail.text for tail in self.tails if tail.text]

    @property
    def words(self) -> list[str]:
        """The words that select them."""
        return [str(tail.path[-1]) if isinstance(self.tails.value, dict) else tail.text for tail in self.tails]


def _find_first_under(node: Node, *keys: str) -> Node:
    return next((node.at(key) for key in keys if node.at(key).value is not None), node.at(keys[0]))


def _check_role(role: Node, sections: Mapping[str, Mapping[str, Node]], folder: Path) -> Iterator[Found]:
    if role.name in (START, END):
        try:
            check_role_name(role.name)
        except UsageError as error:
            yield Found(role.at("name").path, str(error))
    given = [key for key in _KINDS if role.at(key).value is not None]
    for key in given[1:]:
        yield Found(role.at(key).path, f"both {given[0]!r} and {key!r} have this role; keep one", at_key=True)
    yield from _check_callable(role.at("callable_api"), folder)
    if not given and role.name:
        known = [name for section in sections.values() for name in section]
        if role.name not in known:
            wanted = "an 'agent', 'pipeline', 'component', 'callable_api' or 'human'"
            yield Found(role.at("name").path, f"nothing is called {role.name!r}; the role needs {wanted}")
    for key in _KINDS[:3]:
        if role.at(key).text:
            yield from _check_part(role.at(key), role.at(key).text, sections, key)


def _check_part(node: Node, name: str, sections: Mapping[str, Mapping[str, Node]], kind: str = "") -> Iterator[Found]:
    wanted = {"pipeline": ["pipelines"], "component": ["components"], "agent": ["agents", "groups", "chains"]}
    known = [one for section in wanted.get(kind, list(SECTIONS)) for one in sections[section]]
    if kind == "agent":  # as in `workers`
        known += [name for name, one in sections["components"].items() if one.at("type").text in _AGENTS]
    if name not in known:
        what = kind or "agent, pipeline, component, group or chain"
        yield Found(node.path, describe_unknown(what, name, known))


def _check_callable(node: Node, folder: Path) -> Iterator[Found]:
    if not node.text:
        return
    try:
        parse_callable(node.text, folder)
    except ValueError as error:
        yield Found(node.path, f"{node.path[-1]}: {error}")


def _check_field(field: Node, type_: str, reducer: str) -> Iterator[Found]:
    default: dict[str, Any] = {} if field.at("default").value is None else {"default": field.at("default").value}
    try:
        StateField(type_, reducer, **default)
    except UsageError as error:
        yield Found(field.path, str(error))


def _check_word(node: Node, words: Iterable[str]) -> Iterator[Found]:
    known = list(words)
    if node.text and known and node.text not in known:
        yield Found(node.path, f"{node.path[-1]}: {describe_unknown('candidate', node.text, known)}")


def _check_repeated(chain: Node) -> Iterator[Found]:
    seen = set[str]()
    for step in chain.at("steps"):
        if step.name and step.name in seen:
            yield Found(step.at("name").path, f"two steps are called {step.name!r}; give one of them another name")
        seen.add(step.name)


def _check_circles(root: Node) -> Iterator[Found]:
    """Find groups and chains that need themselves."""
    uses: dict[str, dict[str, Node]] = {}
    for agent in root.at("agents"):
        for tool in agent.at("params").at("tools"):
            named = tool.at("pipeline_or_node")
            uses.setdefault(agent.name, {}).setdefault(named.text, named)
    for team in (*root.at("groups"), *root.at("chains")):
        own = uses.setdefault(team.name, {})
        for role in (*team.at("roles"), *team.at("steps")):
            named = role if role.text else role.at("agent")
            if not named.text and not any(role.at(key).value is not None for key in _KINDS):
                named = role.at("name")
            if named.text:
                own.setdefault(named.text, named)
    yield from check_circles(uses)


def _list_texts(node: Node) -> list[str]:
    return [one.text for one in ([node] if node.text else node) if one.text]
