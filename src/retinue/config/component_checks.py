"""Checks of components, pipelines and MCP servers: names, types, parameters, references and graphs.

Nothing is imported or started. Every command that a file would run passes through here. Files are the operator's;
definitions from an API may not contain a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path

from .._internal.message_text import find_nearest
from ..mcp.server_address import find_server_problems
from .problems import MAX_FOUND, Found, Node, Source, describe_unknown, format_value, validate
from .registry import COMPONENTS, ROOTS, TypeEntry
from .specs import ToolOptions
from .tool_files import check_params, resolve_path_within

_OWN = ". A component of your own can be a tool (callable_api: file.py:function), or is used from Python"
SECTIONS = {
    "components": "component", "pipelines": "pipeline", "agents": "agent", "groups": "group", "chains": "chain"
}  # fmt: skip
_MANY = ("args", "env", "headers", "tools", "options")


def index_nodes(root: Node, section: str) -> dict[str, Node]:
    """Return the parts that a section defines, by name."""
    found: dict[str, Node] = {}
    for item in root.at(section):
        if item.name:
            found.setdefault(item.name, item)
    return found


def check_names(root: Node) -> Iterator[Found]:
    """Check that names are unique in the whole file."""
    taken: dict[str, str] = {}
    for section, what in SECTIONS.items():
        for item in root.at(section):
            if item.name in ROOTS:
                yield Found(
                    item.at("name").path, f"{item.name!r} is reserved for the input of pipelines; choose another name"
                )
            if item.name in taken:
                yield Found(item.at("name").path, f"{item.name!r} is already the name of {taken[item.name]}")
            elif item.name:
                taken[item.name] = f"a{'n' if what == 'agent' else ''} {what}"


def check_components(root: Node, folder: Path) -> Iterator[Found]:
    """Check the types, parameters and references of components; references must not be circular."""
    defined = index_nodes(root, "components")
    uses: dict[str, dict[str, Node]] = {}
    for component in root.at("components"):
        type_ = component.at("type").text
        if type_ and type_ not in COMPONENTS:
            own = "" if find_nearest(type_, COMPONENTS) else _OWN
            yield Found(component.at("type").path, describe_unknown("type of component", type_, COMPONENTS) + own)
        if type_ not in COMPONENTS:
            continue
        known = COMPONENTS[type_]
        yield from check_params(component, known, type_)
        for name in (name for name, parameter in known.parameters.items() if parameter.path):
            if (named := component.at("params").at(name)).text:
                yield from check_path(named, folder)
        for one, types in _list_references(component, known):
            uses.setdefault(component.name, {}).setdefault(one.text, one)
            yield from check_reference(one, defined, types)
    yield from check_circles(uses)


def _list_references(component: Node, known: TypeEntry) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield the texts that may name other components, each with the types that they may be of."""
    for name, parameter in known.parameters.items():
        named = component.at("params").at(name)
        for one in named if parameter.kind == "list" else [named]:
            if parameter.refers and one.text:
                yield one, parameter.refers


def check_path(named: Node, folder: Path) -> Iterator[Found]:
    """Check a path relative to `folder`; it need not exist yet."""
    try:
        resolve_path_within(folder, named.text)
    except ValueError as error:
        if "${" not in named.text:
            yield Found(named.path, f"{named.path[-1]}: {error}")


def check_reference(named: Node, components: Mapping[str, Node], types: tuple[str, ...]) -> Iterator[Found]:
    """Check a text that may name a component, or something else such as a model."""
    key, wanted = next(one for one in reversed(named.path) if isinstance(one, str)), " or ".join(types)
    component = components.get(named.text)
    if component is not None:
        type_ = component.at("type").text
        if type_ in COMPONENTS and type_ not in types:
            yield Found(named.path, f"{key}: {named.text!r} is a {type_}; want a {wanted}")
    elif near := find_nearest(
        named.text, (name for name, one in components.items() if one.at("type").text in types), 0.8
    ):
        yield Found(named.path, f"{key}: no component is called {format_value(named.text)}; did you mean {near!r}?")


def check_circles(uses: Mapping[str, Mapping[str, Node]]) -> Iterator[Found]:
    """Find circular references; each circle is reported once, at its first part."""
    graph = {name: [other for other in named if other in uses] for name, named in uses.items()}
    order = list(graph)
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1][:0:-1]
            first = circle.index(min(circle, key=order.index))
            circle = [*circle[first:], *circle[: first + 1]]
            yield Found(uses[circle[0]][circle[1]].path, f"circular references: {' needs '.join(circle)}")
            graph = {name: [o for o in others if name not in circle] for name, others in graph.items()}
        else:
            return


def check_pipelines(root: Node) -> Iterator[Found]:
    """Check each pipeline: nodes must be components, connected to one root, without circles."""
    components = index_nodes(root, "components")
    for pipeline in root.at("pipelines"):
        nodes = list(pipeline.at("nodes"))
        seen: set[str] = set()
        for node in nodes:
            if node.name and node.name not in components:
                yield Found(node.at("name").path, describe_unknown("component", node.name, components))
            if node.name and node.name in seen:
                yield Found(node.at("name").path, f"{node.name!r} appears twice in this pipeline")
            seen.add(node.name)
        yield from _check_graph(nodes)


def _check_graph(nodes: list[Node]) -> Iterator[Found]:
    own = {node.name: node for node in nodes if node.name}
    roots: list[str] = []
    uses: dict[str, dict[str, Node]] = {}
    loose: set[str] = set()  # nodes with a wrong input, whose connections are unknown
    for node, given in ((one, given) for one in nodes for given in one.at("inputs")):
        name = given.text.partition(".output_")[0]
        uses.setdefault(node.name, {}).setdefault(name, given)
        if name in ROOTS and name not in roots:
            roots.append(name)
            if len(roots) > 1:
                yield Found(given.path, f"a second root, {name}: this pipeline begins at {roots[0]}")
        if name not in ROOTS and name not in own:
            loose.add(node.name)
            if name:
                yield Found(given.path, describe_unknown("input", name, [*ROOTS, *own]))
    circles = list(islice(check_circles(uses), MAX_FOUND))
    yield from circles
    if not circles:
        yield from _check_connected(nodes, uses, loose)


def _check_connected(nodes: list[Node], uses: Mapping[str, Mapping[str, Node]], loose: set[str]) -> Iterator[Found]:
    users: dict[str, list[str]] = {}
    for name, given in uses.items():
        for used in given:
            users.setdefault(used, []).append(name)
    reached, new = set[str](), [*ROOTS, *loose]
    while new:
        name = new.pop()
        if name not in reached:
            reached.add(name)
            new += users.get(name, [])
    for node in nodes:
        if node.name and isinstance(node.at("inputs").value, list) and node.name not in reached:
            yield Found(node.at("name").path, f"{node.name!r} is not connected to a root; want {' or '.join(ROOTS)}")


def check_servers(root: Node) -> Iterator[Found]:
    """Check the file's MCP servers beyond the types of their parameters."""
    for component in root.at("components"):
        params = component.at("params")
        if component.at("type").text != "MCPTools" or not isinstance(params.value, dict | None):
            continue
        if any(isinstance(one.value, dict | list) != (one.path[-1] in _MANY) for one in params if one.value):
            continue  # of the wrong type, which is already reported
        for key, problem in find_server_problems(component.name, params.value or {}):
            place = {"": params, "name": component.at("name")}.get(key, params.at(key))
            yield Found(place.path if place.value else component.path, problem)
        for tool in params.at("options"):
            _, found = validate(ToolOptions, Source("", tool.value))
            yield from (one._replace(path=(*tool.path, *one.path)) for one in found)
