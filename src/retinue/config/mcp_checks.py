"""Checks of MCP servers. Nothing is started.

Every command that a file would run passes through here. Files are the operator's; definitions from an API may not
contain a command, and will be refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..mcp.server_address import server_problems
from .places import Found, Node, Source
from .pydantic_errors import validate
from .specs import ToolOptions


def check_servers(root: Node) -> Iterator[Found]:
    """Check the file's MCP servers beyond the types of their parameters."""
    for component in root.at("components"):
        params = component.at("params")
        if component.at("type").text != "MCPTools" or not isinstance(params.value, dict | None):
            continue
        if any(isinstance(one.value, dict | list) != (one.path[-1] in _MANY) for one in params if one.value):
            continue  # of the wrong type, which is already reported
        for key, problem in server_problems(component.name, params.value or {}):
            place = {"": params, "name": component.at("name")}.get(key, params.at(key))
            yield Found(place.path if place.value else component.path, problem)
        for tool in params.at("options"):
            _, found = validate(ToolOptions, Source("", tool.value))
            yield from (one._replace(path=(*tool.path, *one.path)) for one in found)


_MANY = ("args", "env", "headers", "tools", "options")
