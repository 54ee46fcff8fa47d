"""Checks of components, pipelines and MCP servers: types, parameters, references and graphs.

Nothing is imported or started. Every command that a file would run passes through here. Files are the operator's;
definitions from an API may not contain a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from .._internal.message_text import find_nearest
from ..mcp.server_address import find_server_problems
from ..pipelines.graph import find_cycles
from .problems import (
    MAX_FOUND,
    Found,
    Node,
    Source,
    describe_unknown,
    find_invalid,
    find_unknown,
    format_value,
    validate,
)
from .registry import COMPONENTS, ROOTS
from .specs import ToolOptions
from .tool_files import check_params, resolve_path_within

_OWN = ". A component of your own can be a tool (callable_api: file.py:function), or is used from Python"
_MANY = ("args", "env", "headers", "tools", "options")
Uses = dict[str, dict[str, Node]]  # by what uses something: what it names, and where


def index_nodes(root: Node, section: str) -> dict[str, Node]:
    """Return the parts that a section defines, by name."""
    found: dict[str, Node] = {}
    for item in root.at(section):
        if item.name:
            found.setdefault(item.name, item)
    return found


def check_components(root: Node, folder: Path) -> Iterator[Found]:
    """Check the types, parameters and references of components."""
    defined = index_nodes(root, "components")
    for component in root.at("components"):
        type_, params = component.at("type").text, component.at("params")
        if type_ not in COMPONENTS:
            own = "" if find_nearest(type_, COMPONENTS) else _OWN
            if type_:
                yield Found(component.at("type").path, describe_unknown("type of component", type_, COMPONENTS) + own)
            continue
        known = COMPONENTS[type_]
        yield from check_params(component, known, type_)
        for name, parameter in known.parameters.items():
            if parameter.path and "${" not in params.at(name).text:  # which need not exist yet
                yield from find_invalid(params.at(name), partial(resolve_path_within, folder))
        for one, types in list_references(component):
            yield from check_reference(one, defined, types)
        if type_ == "MCPTools":
            yield from _check_server(component)


def list_references(component: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield the texts that may name other components, each with the types that they may be of."""
    known = COMPONENTS.get(component.at("type").text)
    for name, parameter in known.parameters.items() if known else ():
        named = component.at("params").at(name)
        for one in named if parameter.kind == "list" else [named]:
            if parameter.refers and one.text:
                yield one, parameter.refers


def check_reference(named: Node, components: Mapping[str, Node], types: tuple[str, ...]) -> Iterator[Found]:
    """Check a text that may name a component, or something else such as a model."""
    key = next(one for one in reversed(named.path) if isinstance(one, str))
    if (component := components.get(named.text)) is not None:
        type_ = component.at("type").text
        if type_ in COMPONENTS and type_ not in types:
            yield Found(named.path, f"{key}: {named.text!r} is a {type_}; want a {' or '.join(types)}")
        return
    meant = (name for name, one in components.items() if one.at("type").text in types)
    if near := find_nearest(named.text, meant, 0.8):
        yield Found(named.path, f"{key}: no component is called {format_value(named.text)}; did you mean {near!r}?")


def check_circles(uses: Mapping[str, Mapping[str, Node]]) -> Iterator[Found]:
    """Find circular references; each circle is reported once, at its first part."""
    order = list(uses)
    for cycle in find_cycles(uses):
        circle = cycle[::-1]  # from user to what it uses
        first = circle.index(min(circle, key=order.index))
        circle = [*circle[first:], *circle[: first + 1]]
        yield Found(uses[circle[0]][circle[1]].path, f"circular references: {' needs '.join(circle)}")


def check_pipelines(root: Node) -> Iterator[Found]:
    """Check each pipeline: nodes must be components, connected to one root, without circles."""
    components = index_nodes(root, "components")
    for pipeline in root.at("pipelines"):
        seen: set[str] = set()
        for node in pipeline.at("nodes"):
            yield from find_unknown(node.at("name"), "component", components)
            if node.name and node.name in seen:
                yield Found(node.at("name").path, f"{node.name!r} appears twice in this pipeline")
            seen.add(node.name)
        yield from _check_graph(list(pipeline.at("nodes")))


def _check_graph(nodes: list[Node]) -> Iterator[Found]:
    own = dict.fromkeys(node.name for node in nodes if node.name)
    roots, uses = list[str](), Uses()
    reached = {*ROOTS}  # nodes with a wrong input are, too, for their connections are unknown
    for node, given in ((one, given) for one in nodes for given in one.at("inputs")):
        name = given.text.partition(".output_")[0]
        uses.setdefault(node.name, {}).setdefault(name, given)
        if name in ROOTS and name not in roots:
            roots.append(name)
            if len(roots) > 1:
                yield Found(given.path, f"a second root, {name}: this pipeline begins at {roots[0]}")
        if name not in ROOTS and name not in own:
            reached.add(node.name)
            if name:
                yield Found(given.path, describe_unknown("input", name, [*ROOTS, *own]))
    circles = list(islice(check_circles(uses), MAX_FOUND))
    yield from circles
    while new := {name for name, named in uses.items() if name not in reached and not reached.isdisjoint(named)}:
        reached |= new
    for node in nodes if not circles else ():
        if node.name and isinstance(node.at("inputs").value, list) and node.name not in reached:
            yield Found(node.at("name").path, f"{node.name!r} is not connected to a root; want {' or '.join(ROOTS)}")


def _check_server(component: Node) -> Iterator[Found]:
    """Check an MCP server beyond the types of its parameters."""
    params = component.at("params")
    if not isinstance(params.value, dict | None):
        return
    if any(isinstance(one.value, dict | list) != (one.path[-1] in _MANY) for one in params if one.value):
        return  # of the wrong type, which is already reported
    for key, problem in find_server_problems(component.name, params.value or {}):
        place = {"": params, "name": component.at("name")}.get(key, params.at(key))
        yield Found(place.path if place.value else component.path, problem)
    for tool in params.at("options"):
        _, found = validate(ToolOptions, Source("", tool.value))
        yield from (one._replace(path=(*tool.path, *one.path)) for one in found)
