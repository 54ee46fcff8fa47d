"""MCP tool declarations (`type: mcp`) for the server's own tools: which a request allows, and which need approval. A
declaration can only restrict: no address is contacted, and no approval is waived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ...agent import Agent
from ...core.tools.tool import Tool
from ..http.api_errors import ApiError
from .deployment import Through

MCP = "mcp"
_REACH = ("connector_id", "tunnel_id", "authorization", "headers")
Wish = Mapping[str, Any]


def check(wishes: Sequence[Wish], name: str, agent: Agent, host: str) -> None:
    """Raise `ApiError` if the tools of a request declare anything that the agent `name` does not have. `host` is the
    request's Host header: some clients must give a server address, so this server's own is accepted."""
    declared = [one for one in wishes if one["type"] == MCP]
    for one in declared:
        label = one["server_label"]
        if label != name:
            raise _refusal(f"there is no MCP server '{label}' here; the tools of this model have the label '{name}'.")
        if given := [key for key in _REACH if one.get(key)]:
            raise _refusal(f"'{given[0]}' names another server, and this one contacts no other for you. Leave it out.")
        if (url := one.get("server_url")) and not _is_address_of(url, host):
            raise _refusal("'server_url' names another server, and this one contacts no other for you. Leave it out.")
        named = [*_names(one.get("allowed_tools")), *_ruled(one.get("require_approval"))]
        own = {tool.name for tool in agent.tools}
        if unknown := [tool for tool in named if tool not in own]:
            raise _refusal(
                f"the model '{name}' has no tool '{unknown[0]}'; it has: {', '.join(sorted(own)) or 'none'}."
            )
    if len(declared) > 1:
        raise _refusal(f"the MCP server '{name}' is declared twice.")
    if declared and isinstance(agent.strategy, Through) and not left(agent.tools, declared):
        raise _refusal(f"the model '{name}' is a pipeline, and needs its tool.")


def left(tools: Iterable[Tool], wishes: Iterable[Wish]) -> list[Tool]:
    """Return the agent's tools that a request allows, with the approvals it adds."""
    kept = list(tools)
    for one in wishes:
        if one.get("type") == MCP:
            wish = {**one, **(one.get(MCP) or {})}
            allowed, rules = wish.get("allowed_tools"), wish.get("require_approval")
            kept = [tool for tool in kept if allowed is None or _fits(tool, allowed)]
            kept = [replace(tool, approval=True) if _asked_for(tool, rules) else tool for tool in kept]
    return kept


def _asked_for(tool: Tool, rules: Any) -> bool:
    """Whether `require_approval` requires approval of a tool. If it lists only tools that need none, all others need
    one."""
    if not isinstance(rules, Mapping):
        return bool(rules == "always")
    always, never = rules.get("always"), rules.get("never")
    if always is not None:
        return _fits(tool, always)
    return never is not None and not _fits(tool, never)


def _fits(tool: Tool, given: Any) -> bool:
    """Whether a list of names, or a filter, includes a tool."""
    if not isinstance(given, Mapping):
        return tool.name in given
    names, reads = given.get("tool_names"), given.get("read_only")
    return (names is None or tool.name in names) and (reads is None or reads == (tool.effects == "read"))


def _names(given: Any) -> list[str]:
    return list((given.get("tool_names") if isinstance(given, Mapping) else given) or ())


def _ruled(rules: Any) -> list[str]:
    return [name for one in rules.values() for name in _names(one)] if isinstance(rules, Mapping) else []


def _is_address_of(url: str, host: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _refusal(message: str) -> ApiError:
    return ApiError(400, f"Invalid 'tools': {message}", param="tools", code="invalid_value")
