"""`/tools`: a tenant registers tools while the server runs: HTTP endpoints and MCP servers by address, never code.

A definition is JSON. A run keeps those with which it began.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from sqlalchemy import Connection, Text, cast, func, select

from ..._internal.concurrency import run_in_thread
from ...core.tools.signature import build_schema_signature
from ...core.tools.tool import Tool
from ...errors import RetinueError
from ...limits.shares import TenantShares
from ...mcp.mcp_tools import MCPTools
from ...mcp.schema_conversion import convert_schema
from ...mcp.tool_pins import Offer
from ...net.ssrf_guard import SsrfGuard
from ...runs.leases import is_new
from ...store.audit_log import record
from ...store.database import Database
from ...store.engines import COUNTING, lock_until_end
from ...store.prepared_statements import insert_once
from ...store.run_row import RunRow
from ...store.tables import registered_tools, run_tools
from ...store.tenant_view import Kept, TenantView
from ...tools.endpoint import make_endpoint
from ..agents.overrides import HOSTED
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, invalid_value, not_found
from ..http.common_schemas import ByType, Wire
from ..http.objects import Object, Wanted, deletion_object, find_row, list_rows, new_id
from ..http.request_body import JsonRoute

router = APIRouter(prefix="/tools", route_class=JsonRoute)
Definition = Mapping[str, Any]
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}
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
            await run_in_thread(partial(_build_tools, [definition], guard))
    except RetinueError as error:
        raise invalid_value("parameters", str(error)) from error
    if hosted := [one for one in _tool_names(definition) if one in HOSTED]:
        raise invalid_value("name", f"'{hosted[0]}' is a tool of the server's own; give it another name")
    deployment = context.server.deployment
    for name in sorted(deployment.extensible):
        own = {tool.name for tool in deployment.agents[name].tools}
        if taken := [one for one in _tool_names(definition) if one in own]:
            raise invalid_value("name", f"the model '{name}' has a tool '{taken[0]}' of its own")


def _check_names(there: Sequence[Definition], definition: Definition) -> None:
    """Raise `ApiError` if the tenant has such a name, or has enough."""
    names = [name for one in there for name in _tool_names(one)]
    if definition["name"] in [one["name"] for one in there] or set(names) & set(_tool_names(definition)):
        raise invalid_value("name", f"there is a tool '{definition['name']}' already; delete it first")
    if len(names) + len(_tool_names(definition)) > _MOST:
        message = f"You may register at most {_MOST} tools."
        raise ApiError(
            400, message, param="tools" if definition["type"] == "mcp" else None, code="storage_limit_reached"
        )


def _object(row: Kept) -> Object:
    return {"id": row.id, "object": "tool", "created_at": row.created_at, **row.body, "names": _tool_names(row.body)}


# ── the tools of runs ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunTools:
    """The registered tools of runs, in the database. Large definitions take their tenant's `shares`. `hosts` are
    private servers that they may call."""

    database: Database
    shares: TenantShares
    hosts: tuple[str, ...] = ()

    async def tools(self, run: RunRow) -> list[Tool]:
        """Return the tools with which a run began; one that begins takes those that its tenant has now. Raises
        `RetinueError`."""
        new = is_new(run)
        mine = registered_tools.c.tenant == run.tenant if new else run_tools.c.run_id == run.id
        body = registered_tools.c.body if new else run_tools.c.body
        query = select(func.sum(func.length(cast(body, Text)))).where(mine)
        size = await self.database.read(lambda connection: connection.execute(query).scalar() or 0)
        async with self.shares.of_write(run.tenant, size):
            access = self.database.write if new else self.database.read
            definitions = await access(partial(_take_definitions if new else _read_definitions, run=run))
            if not definitions:
                return []
            return await run_in_thread(partial(_build_tools, definitions, SsrfGuard(self.hosts)))


def _read_definitions(connection: Connection, run: RunRow) -> Sequence[Definition]:
    found = connection.execute(select(run_tools.c.body).where(run_tools.c.run_id == run.id)).scalar_one_or_none()
    return found or ()


def _take_definitions(connection: Connection, run: RunRow) -> Sequence[Definition]:
    query = select(registered_tools.c.body).where(registered_tools.c.tenant == run.tenant)
    there = list(connection.execute(query.order_by(registered_tools.c.number)).scalars())
    connection.execute(run_tools.delete().where(run_tools.c.run_id == run.id))  # of a drive that got no further
    if there:
        insert_once(connection, run_tools, {"run_id": run.id, "tenant": run.tenant, "body": there})
    return there


def _build_tools(definitions: Sequence[Definition], guard: SsrfGuard) -> list[Tool]:
    """Return the tools that definitions describe, without contacting anybody. Raises `RetinueError` for a definition
    that is none."""
    tools = list[Tool]()
    for one in definitions:
        if one["type"] == "mcp":
            approval = {offer["name"]: {"approval": True} for offer in one["tools"]} if one.get("approval") else {}
            server = MCPTools(one["name"], url=one["url"], options=approval, guard=guard)
            tools += server.approved(Offer(**offer) for offer in one["tools"])
        else:
            takes = build_schema_signature(convert_schema(one.get("parameters") or _NO_ARGUMENTS))
            call = make_endpoint(one["url"], one.get("output"), guard)
            options = {name: one[name] for name in ("effects", "timeout", "approval") if one.get(name) is not None}
            tools.append(Tool(one["name"], call, one["description"], takes=takes, **options))
    return tools


def _tool_names(definition: Definition) -> list[str]:
    """Return the names under which a model sees the tools of a definition."""
    if definition["type"] == "mcp":
        return [Offer(**one).called(definition["name"]) for one in definition["tools"]]
    return [definition["name"]]
