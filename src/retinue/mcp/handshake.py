"""The handshake with a server, its tool list, and readable connection errors."""

from __future__ import annotations

from collections.abc import Iterator

from mcp import ClientSession, MCPError
from mcp_types import CONNECTION_CLOSED, ListToolsRequest, ListToolsResult, PaginatedRequestParams, Tool as ListedTool
from pydantic import ValidationError

from ..core.tool import Effects
from ..errors import ToolError
from .server_address import Server
from .tool_pins import Offer

MAX_TOOLS = 500


async def shake_hands(session: ClientSession) -> None:
    """Initialize the session. Servers that support only the successor of `initialize` refuse it, so that is tried
    next."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise
        try:
            await session.discover()
        except MCPError:
            raise error from None


async def list_all(session: ClientSession) -> list[Offer]:
    """Return all tools that the server lists. Raises `ToolError` if there are too many."""
    offers: list[Offer] = []
    cursor: str | None = None
    while True:
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        page = await session.send_request(request, ListToolsResult)
        offers += [_offer(tool) for tool in page.tools]
        cursor = page.next_cursor
        if len(offers) > MAX_TOOLS:
            raise ToolError(f"it offers more than {MAX_TOOLS} tools")
        if not cursor:
            return offers


def _offer(tool: ListedTool) -> Offer:
    hints = tool.annotations
    read, same = hints and hints.read_only_hint, hints and hints.idempotent_hint
    effects: Effects = "read" if read else "idempotent" if same else "once"
    return Offer(tool.name, tool.description or "", tool.input_schema, effects)


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
