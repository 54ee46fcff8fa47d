"""Checks of groups and chains: roles, edges, selectors and fields. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import get_args

from ..errors import UsageError
from ..teams.graph_check import GraphOutline, GraphProblem, find_structure_problems
from ..teams.role import END, START, check_role_name
from ..teams.shared_state import OWN, REDUCERS, StateField
from ..teams.state_expression import ExpressionError, list_field_names, parse_expression
from .component_checks import check_reference
from .problems import Found, KeyPath, Node, describe_unknown, find_invalid, find_unknown, format_value
from .specs import FieldType
from .tool_files import parse_callable

KINDS = ("agent", "pipeline", "component", "callable_api", "human")  # what may have a role
_SECTIONS = {"agent": ("agents", "groups", "chains"), "pipeline": ("pipelines",), "component": ("components",)}
_AGENTS = ("RemoteAgent", "A2AAgent")  # components that are agents
_CHOOSERS = ("when", "function", "model", "question")
Sections = Mapping[str, Mapping[str, Node]]


def check_groups(root: Node, sections: Sections, folder: Path) -> Iterator[Found]:
    """Check every group and chain. `sections` are the named parts of the file."""
    for group in root.at("groups"):
        yield from _GroupChecks(group, sections, folder).find_problems()
    for chain in root.at("chains"):
        seen: set[str] = set()
        for step in chain.at("steps"):
            if step.text:
                yield from _check_part(step, sections)
            else:
                yield from _check_role(step, sections, folder)
            if step.name and step.name in seen:
                yield Found(step.at("name").path, f"two steps are called {step.name!r}; give one of them another name")
            seen.add(step.name)


def _check_role(role: Node, sections: Sections, folder: Path) -> Iterator[Found]:
    if role.name in (START, END):
        try:
            check_role_name(role.name)
        except UsageError as error:
            yield Found(role.at("name").path, str(error))
    given = role.given(*KINDS)
    for key in given[1:]:
        yield Found(role.at(key).path, f"both {given[0]!r} and {key!r} have this role; keep one", at_key=True)
    yield from find_invalid(role.at("callable_api"), partial(parse_callable, folder=folder))
    if not given and role.name and not any(role.name in section for section in sections.values()):
        wanted = "an 'agent', 'pipeline', 'component', 'callable_api' or 'human'"
        yield Found(role.at("name").path, f"nothing is called {role.name!r}; the role needs {wanted}")
    for key in _SECTIONS:
        yield from _check_part(role.at(key), sections, key)


def _check_part(node: Node, sections: Sections, kind: str = "") -> Iterator[Found]:
    known = [name for section in _SECTIONS.get(kind, sections) for name in sections[section]]
    if kind == "agent":  # as in `workers`
        known += [name for name, one in sections["components"].items() if one.at("type").text in _AGENTS]
    yield from find_unknown(node, kind or "agent, pipeline, component, group or chain", known)


class _Edge:
    """An edge or conditional edges, under any of their keys."""

    def __init__(self, node: Node) -> None:
        def find(*keys: str) -> Node:
            return node.at((node.given(*keys) or keys)[0])

        self.node = node
        self.head, self.tail, self.tails = (find(key, f"{key[:4]}_node{key[4:]}") for key in ("head", "tail", "tails"))
        self.selector = find("selector", "should_continue", "Should_Continue")
        self.candidates = [tail.text for tail in self.tails if tail.text]
        by_word = isinstance(self.tails.value, dict)
        self.words = [str(tail.path[-1]) if by_word else tail.text for tail in self.tails]  # that select a candidate


class _GroupChecks:
    """The checks of one group."""

    def __init__(self, group: Node, sections: Sections, folder: Path) -> None:
        self._group, self._sections, self._folder = group, sections, folder
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
        for field in self._group.at("state"):
            yield from self._check_field(field)
        yield from find_unknown(self._group.at("answer"), "field", self._fields, "answer: ")
        for branch in self._branches:
            if branch.selector.text:
                yield from self._check_expression(branch.selector)
            elif isinstance(branch.selector.value, dict):
                yield from self._check_selector(branch.selector, branch.words)
        yield from check_reference(self._group.at("model"), self._sections["components"], ("PromptModel",))
        drawn = all(edge.head.text and edge.tail.text for edge in self._edges) and all(
            one.head.text and isinstance(one.tails.value, list | dict) for one in self._branches
        )
        if drawn and self._roles and all(role.name for role in self._roles):
            outline = GraphOutline(
                [role.name for role in self._roles],
                [(edge.head.text, edge.tail.text, edge.node.at("on").text == "error") for edge in self._edges],
                [(branch.head.text, branch.candidates) for branch in self._branches],
            )
            yield from (Found(*self._locate(problem)) for problem in find_structure_problems(outline))

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
        for node in [*([given] if given.text else given), role.at("human").at("shows")]:
            if node.text != "state":
                yield from find_unknown(node, "field", self._fields, "input: ")
        for name in _list_texts(role.at("output")):
            if name in OWN:
                problem = f"output: the field {name!r} is kept by the graph; choose another name"
                yield Found(role.at("output").path, problem)

    def _check_field(self, field: Node) -> Iterator[Found]:
        name, type_, reducer = str(field.path[-1]), field.at("type").text or "any", field.at("reducer")
        if name in OWN or not name.isidentifier():
            why = "is kept by the graph" if name in OWN else "is not a name"
            yield Found(field.path, f"{name!r} {why}; choose another name", at_key=True)
        if field.text or type_ not in get_args(FieldType):
            return
        if ".py:" in reducer.text:
            yield from find_invalid(reducer, partial(parse_callable, folder=self._folder))
        elif reducer.text and reducer.text not in REDUCERS:
            yield from find_unknown(reducer, "reducer", REDUCERS, "reducer: ")
        else:
            default = {"default": field.at("default").value} if field.given("default") else {}
            try:
                StateField(type_, reducer.text or "replace", **default)
            except UsageError as error:
                yield Found(field.path, str(error))

    def _check_selector(self, selector: Node, words: list[str]) -> Iterator[Found]:
        given = selector.given(*_CHOOSERS)
        if not given:
            yield Found(selector.path, "selector: needs 'when', 'function', or a 'question' for a model")
        elif len(given) > 1 and given != ["model", "question"]:
            yield Found(selector.at(given[1]).path, f"both {given[0]!r} and {given[1]!r} choose; keep one", at_key=True)
        yield from find_invalid(selector.at("function"), partial(parse_callable, folder=self._folder))
        for case in selector.at("when"):
            yield from self._check_expression(case.at("if"))
        for word in (*(case.at("to") for case in selector.at("when")), selector.at("otherwise")):
            if words:
                yield from find_unknown(word, "candidate", words, f"{word.path[-1]}: ")
        for field in selector.at("shows"):
            yield from find_unknown(field, "field", self._fields, "shows: ")
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
            names = dict.fromkeys(list_field_names(parse_expression(text.text)))
        except ExpressionError as error:
            yield Found(text.path, f"the expression: {error}")
            return
        for name in names:
            if name not in self._fields:
                yield Found(text.path, f"the expression: {describe_unknown('field', name, self._fields)}")


def _list_texts(node: Node) -> list[str]:
    return [one.text for one in ([node] if node.text else node) if one.text]
