"""`/tools`: registers tools while the server runs: HTTP endpoints and MCP servers, by their addresses."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from sqlalchemy import Connection, select

from ..._internal.concurrency import run_in_thread
from ...errors import RetinueError
from ...mcp.mcp_tools import MCPTools
from ...net.ssrf_guard import SsrfGuard
from ...store.advisory_lock import COUNTING, lock_until_end
from ...store.audit_log import record
from ...store.tables import registered_tools
from ...store.tenant_view import Kept, TenantView
from ..agents.overrides import HOSTED
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, invalid_value, not_found
from ..http.common_schemas import ByType, Wire
from ..http.objects import Object, Wanted, deletion_object, find_row, list_rows, new_id
from ..http.request_body import JsonRoute
from .registered import MCP, Definition, build_tools, tool_names

router = APIRouter(prefix="/tools", route_class=JsonRoute)
_MOST = 64  # tools of a tenant, and definitions of them
_LONGEST = 60_000  # characters of a definition
_SECONDS = 10.0  # for an MCP server to list its tools
Url = Annotated[str, Field(min_length=1, max_length=2_000)]


class RegisteredTool(Wire):
    """What every definition has. Anything else is refused: commands, code, packages, environments, headers."""

    model_config = ConfigDict(extra="forbid")

    url: Url
    approval: bool | None = None


class HttpTool(RegisteredTool):
    """An HTTP endpoint that gets the arguments as JSON. `parameters` is a JSON Schema; `output` names the value of the
    response that is the result."""

    type: Literal["http"]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")]
    description: Annotated[str, Field(min_length=1, max_length=4_096)]
    parameters: dict[str, Any] | None = None
    output: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    effects: Literal["read", "idempotent", "once"] | None = None
    timeout: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] | None = None


class McpServer(RegisteredTool):
    """An MCP server (streamable HTTP). Its tools are called `name_tool`; `allowed_tools` are those to take."""

    type: Literal["mcp"]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,32}$")]
    allowed_tools: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=_MOST)] | None = None


ToolCreate = Annotated[HttpTool | McpServer, ByType()]


@router.post("")
async def create_tool(context: ContextDep, body: ToolCreate) -> Object:
    """Register a tool, or the tools that an MCP server offers now. Runs that begin from now on may use them."""
    guard = SsrfGuard(context.server.options.tool_hosts)
    definition = dict(body.sent())
    try:
        await guard.route(body.url)
    except RetinueError as error:
        raise invalid_value("url", str(error)) from error
    if isinstance(body, McpServer):
        definition["tools"] = await _list_offers(context, guard, body)
    if len(json.dumps(definition)) > _LONGEST:
        raise invalid_value("parameters", f"a definition has at most {_LONGEST:,} characters")
    await _check_tools(context, guard, definition)
    row = {"id": new_id("tool"), "created_at": int(time.time()), "name": body.name, "body": definition}

    def add(connection: Connection, scope: TenantView) -> Object:
        lock_until_end(connection, COUNTING)
        mine = registered_tools.c.tenant == scope.tenant
        there = list(connection.execute(select(registered_tools.c.body).where(mine)).scalars())
        _check_names(there, definition)
        detail = {"name": body.name, "type": body.type}
        record(connection, scope.author, scope.tenant, "tool.registered", str(row["id"]), detail)
        return _object(scope.add(connection, registered_tools, row))

    return await context.write(add)


@router.get("")
async def list_tools(context: ContextDep, page: Wanted) -> Object:
    """List the registered tools, newest first."""
    return await context.read(lambda connection, scope: list_rows(connection, scope, registered_tools, page, _object))


@router.get("/{tool_id}")
async def retrieve_tool(context: ContextDep, tool_id: str) -> Object:
    """Retrieve a registered tool."""
    return await context.read(
        lambda connection, scope: _object(find_row(connection, scope, registered_tools, tool_id, "tool")),
    )


@router.delete("/{tool_id}")
async def delete_tool(context: ContextDep, tool_id: str) -> Object:
    """Delete a registered tool. Runs under way keep it."""

    def remove(connection: Connection, scope: TenantView) -> int:
        removed = scope.remove(connection, registered_tools, registered_tools.c.id == tool_id)
        if removed:
            record(connection, scope.author, scope.tenant, "tool.removed", tool_id)
        return removed

    if not await context.write(remove):
        raise not_found("tool", tool_id)
    return deletion_object(tool_id, "tool")


async def _list_offers(context: Context, guard: SsrfGuard, body: McpServer) -> list[dict[str, Any]]:
    """Return the tools that an MCP server offers. Raises `ApiError` if it cannot be used."""
    server = MCPTools(body.name, url=body.url, tools=body.allowed_tools or (), seconds=_SECONDS, guard=guard)
    try:
        async with context.server.shares.fetching.of(context.scope.tenant):
            found = await server.offered_async()
    except RetinueError as error:
        raise invalid_value("url", str(error)) from error
    finally:
        await server.stop_async()
    missing = [name for name in body.allowed_tools or () if name not in found.offers]
    if missing or not found.offers:
        why = found.refused.get(missing[0], "it is not offered") if missing else "the server offers none"
        raise invalid_value("allowed_tools", f"{missing[0]!r}: {why}" if missing else why)
    return [
        {"name": one.name, "description": one.description, "effects": one.effects, "schema": dict(one.schema)}
        for one in found.offers.values()
    ]


async def _check_tools(context: Context, guard: SsrfGuard, definition: Definition) -> None:
    """Raise `ApiError` for a definition of which no tools can be made, or whose names agents have already."""
    try:
        async with context.server.shares.large.rested(context.scope.tenant):
            await run_in_thread(partial(build_tools, [definition], guard))
    except RetinueError as error:
        raise invalid_value("parameters", str(error)) from error
    if hosted := [one for one in tool_names(definition) if one in HOSTED]:
        raise invalid_value("name", f"'{hosted[0]}' is a tool of the server's own; give it another name")
    deployment = context.server.deployment
    for name in sorted(deployment.extensible):
        own = {tool.name for tool in deployment.agents[name].tools}
        if taken := [one for one in tool_names(definition) if one in own]:
            raise invalid_value("name", f"the model '{name}' has a tool '{taken[0]}' of its own")


def _check_names(there: Sequence[Definition], definition: Definition) -> None:
    """Raise `ApiError` if the tenant has such a name, or has enough."""
    names = [name for one in there for name in tool_names(one)]
    if definition["name"] in [one["name"] for one in there] or set(names) & set(tool_names(definition)):
        raise invalid_value("name", f"there is a tool '{definition['name']}' already; delete it first")
    if len(names) + len(tool_names(definition)) > _MOST:
        message = f"You may register at most {_MOST} tools."
        raise ApiError(400, message, param="tools" if definition["type"] == MCP else None, code="storage_limit_reached")


def _object(row: Kept) -> Object:
    return {"id": row.id, "object": "tool", "created_at": row.created_at, **row.body, "names": tool_names(row.body)}
