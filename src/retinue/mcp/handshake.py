"""The handshake with a server, its tool list, and readable connection errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp import ClientSession, MCPError
from mcp_types import CONNECTION_CLOSED, ListToolsRequest, PaginatedRequestParams
from pydantic import ValidationError

from ..core.tool import Effects
from ..errors import ToolError
from .messages import raw_result
from .server_address import Server
from .streamable_http import OWN_FAILURE
from .tool_pins import Malformed, Offer

MAX_TOOLS = 500


async def shake_hands(session: ClientSession) -> None:
    """Initialize the session. Servers that support only the successor of `initialize` refuse it, so that is tried
    next."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code in (CONNECTION_CLOSED, OWN_FAILURE):
            raise
        try:
            await session.discover()
        except MCPError:
            raise error from None


async def list_all(session: ClientSession) -> list[Offer | Malformed]:
    """Return all tools that the server lists. Raises `ToolError` if there are too many."""
    found: list[Offer | Malformed] = []
    cursor: str | None = None
    while True:
        page = await raw_result(session, ListToolsRequest(params=PaginatedRequestParams(cursor=cursor)))
        listed, cursor = page.get("tools"), page.get("nextCursor")
        if not isinstance(listed, list):
            raise ToolError("what it says is not valid MCP: want a list of tools")
        found += [_offer(tool, number) for number, tool in enumerate(listed, len(found))]
        if len(found) > MAX_TOOLS:
            raise ToolError(f"it offers more than {MAX_TOOLS} tools")
        if not cursor or not isinstance(cursor, str):
            return found


def _offer(tool: Any, number: int) -> Offer | Malformed:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name:
        return Malformed(f"tools[{number}]", "it has no name")
    schema, description = tool.get("inputSchema"), tool.get("description")
    if not isinstance(schema, dict):
        return Malformed(name, f"its inputSchema is {'missing' if schema is None else 'not an object'}")
    hints = tool.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    read, same = hints.get("readOnlyHint") is True, hints.get("idempotentHint") is True
    effects: Effects = "read" if read else "idempotent" if same else "once"
    return Offer(name, description if isinstance(description, str) else "", schema, effects)


def first_problem(error: Exception, server: Server) -> str:
    """Return the first cause of an exception, as text for a person."""
    first = next(_leaves(error))
    match first:
        case ToolError():
            return str(first).removeprefix(f"{server.name}: ")
        case TimeoutError():
            return f"it did not answer within {server.seconds:g} seconds"
        case MCPError():
            return first.message[:300]
        case ValidationError():
            wrong = first.errors(include_url=False, include_input=False)[0]
            return f"what it says is not valid MCP: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"[:300]
        case _:
            return f"{type(first).__name__}: {first!s:.300}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
