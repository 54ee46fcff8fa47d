"""Tools that a tenant registered while the server runs: HTTP endpoints and MCP servers at addresses, never code.

A definition is JSON. A run keeps those with which it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Text, cast, func, select

from ..._internal.concurrency import run_in_thread
from ...core.tools.signature import build_schema_signature
from ...core.tools.tool import Tool
from ...limits.shares import TenantShares
from ...mcp.mcp_tools import MCPTools
from ...mcp.schema_conversion import convert_schema
from ...mcp.tool_pins import Offer
from ...net.ssrf_guard import SsrfGuard
from ...runs.leases import is_new
from ...store.database import Database
from ...store.prepared_statements import insert_once
from ...store.run_row import RunRow
from ...store.tables import registered_tools, run_tools
from ...tools.endpoint import make_endpoint

HTTP, MCP = "http", "mcp"
Definition = Mapping[str, Any]
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class RunTools:
    """The registered tools of runs, in the database. Large definitions take their tenant's `shares`. `hosts` are
    private servers that they may call."""

    database: Database
    shares: TenantShares
    hosts: tuple[str, ...] = ()

    async def tools(self, run: RunRow) -> list[Tool]:
        """Return the tools with which a run began. Raises `RetinueError`."""
        size = await self.database.read(partial(_size, run=run))
        async with self.shares.of_write(run.tenant, size):
            definitions = await self.of_run(run)
            if not definitions:
                return []
            return await run_in_thread(partial(build_tools, definitions, SsrfGuard(self.hosts)))

    async def of_run(self, run: RunRow) -> Sequence[Definition]:
        """Return the definitions with which a run began. A run that begins takes those that its tenant has now."""
        if is_new(run):
            return await self.database.write(partial(_taken, run=run))
        query = select(run_tools.c.body).where(run_tools.c.run_id == run.id)
        found = await self.database.read(lambda connection: connection.execute(query).scalar_one_or_none())
        return found or ()


def build_tools(definitions: Sequence[Definition], guard: SsrfGuard) -> list[Tool]:
    """Return the tools that definitions describe, without contacting anybody. Raises `RetinueError` for a definition
    that is none."""
    return [tool for one in definitions for tool in (_of_server if one["type"] == MCP else _of_endpoint)(one, guard)]


def tool_names(definition: Definition) -> list[str]:
    """Return the names under which a model sees the tools of a definition."""
    if definition["type"] == MCP:
        return [_offer(one).called(definition["name"]) for one in definition["tools"]]
    return [definition["name"]]


def _size(connection: Connection, run: RunRow) -> int:
    """Return the characters of the definitions that a run has, or that it takes if it begins."""
    new, its = registered_tools.c.tenant == run.tenant, run_tools.c.run_id == run.id
    body, where = (registered_tools.c.body, new) if is_new(run) else (run_tools.c.body, its)
    return connection.execute(select(func.sum(func.length(cast(body, Text)))).where(where)).scalar() or 0


def _taken(connection: Connection, run: RunRow) -> Sequence[Definition]:
    query = select(registered_tools.c.body).where(registered_tools.c.tenant == run.tenant)
    there = list(connection.execute(query.order_by(registered_tools.c.number)).scalars())
    connection.execute(run_tools.delete().where(run_tools.c.run_id == run.id))  # of a drive that got no further
    if there:
        insert_once(connection, run_tools, {"run_id": run.id, "tenant": run.tenant, "body": there})
    return there


def _of_endpoint(one: Definition, guard: SsrfGuard) -> list[Tool]:
    takes = build_schema_signature(convert_schema(one.get("parameters") or _NO_ARGUMENTS))
    call = make_endpoint(one["url"], one.get("output"), guard)
    options = {name: one[name] for name in ("effects", "timeout", "approval") if one.get(name) is not None}
    return [Tool(one["name"], call, one["description"], takes=takes, **options)]


def _of_server(one: Definition, guard: SsrfGuard) -> list[Tool]:
    approval = {offer["name"]: {"approval": True} for offer in one["tools"]} if one.get("approval") else {}
    server = MCPTools(one["name"], url=one["url"], options=approval, guard=guard)
    return server.approved(map(_offer, one["tools"]))


def _offer(one: Mapping[str, Any]) -> Offer:
    return Offer(one["name"], one["description"], one["schema"], one["effects"])
