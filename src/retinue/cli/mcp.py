"""`retinue mcp`: serves what a file defines as an MCP server."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import click

from .._internal.sync_bridge import run_to_completion
from ..agent import Agent
from ..config import load_spec
from ..config.agent_code import Target, load_code
from ..config.builder import Builder
from ..config.price_file import use_prices
from ..config.specs import FileSpec
from ..core.tools.tool import Tool
from ..errors import DataError, UsageError
from ..pipelines import Pipeline
from .option_types import AGENTS


@click.command("mcp")
@click.argument("file", type=AGENTS)
@click.argument("names", nargs=-1)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP, at /mcp, instead of standard input.")
@click.option("--api-key", envvar="RETINUE_MCP_KEY", help="The key that clients must send; generated if missing.")
@click.option("--allow-host", multiple=True, help="A host name of the server, besides localhost.")
def command(
    file: Target, names: tuple[str, ...], address: str | None, api_key: str | None, allow_host: tuple[str, ...]
) -> int:
    """Serve the agents, pipelines and tools of FILE with these NAMES as an MCP server.

    Without NAMES: all agents and pipelines, or the top-level tools of a file that has neither. Clients see an agent as
    the tool ask_NAME(question), and a pipeline as run_NAME(query). The key may also be in RETINUE_MCP_KEY.
    """
    use_prices(beside=file.file)
    said: dict[str, str] = {}
    if file.code:
        parts = _parts_of_code(file, names)
    else:
        spec = load_spec(file.file)
        parts = _parts(spec, names)
        said = {agent.name: agent.params.role_description or "" for agent in spec.agents or ()}
        said |= {team.name: team.description or "" for team in (*(spec.groups or ()), *(spec.chains or ()))}
    try:
        from ..mcp.mcp_server import build_server, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise UsageError("MCP needs the extra 'mcp': pip install 'retinue[mcp]'") from error
    server = build_server(parts, file.file.stem, said)
    if address is None:
        run_to_completion(serve_stdio(server))
        return 0
    from ..server.http.connections import listen, url_of

    host, _, port = address.rpartition(":")
    if not port.isdigit() or not int(port) < 65_536:
        raise UsageError(f"--http {address}: want HOST:PORT, such as 127.0.0.1:8080")
    host, key = host or "127.0.0.1", api_key or secrets.token_urlsafe(32)
    listening = listen(host, int(port), "--http")
    with suppress(KeyboardInterrupt):
        click.echo(f"{url_of(host, listening)}/mcp", err=True)
        if not api_key:
            click.echo(f"the key of this run: Authorization: Bearer {key}", err=True)
        serve_http(server, key, listening, [host, *allow_host])
    return 0


def _parts_of_code(file: Target, names: tuple[str, ...]) -> list[Agent | Pipeline | Tool]:
    there = load_code(file)
    if missing := [name for name in names if name not in there]:
        raise DataError(f"{file}: no agent or pipeline {missing[0]!r}; there are: {', '.join(there)}")
    return [there[name] for name in names or there]


def _parts(spec: FileSpec, names: tuple[str, ...]) -> list[Agent | Pipeline | Tool]:
    builder = Builder(spec)
    there: list[Any] = [*(spec.agents or ()), *(spec.groups or ()), *(spec.chains or ()), *(spec.pipelines or ())]
    own = [part.name for part in there]
    if own and not names:
        return [builder.get(name) for name in own]
    shared = {tool.name: tool for tool in builder.build_shared_tools()} if {*names} - {*own} or not own else {}
    wanted = names or tuple(shared)
    if missing := [name for name in wanted if name not in own and name not in shared]:
        raise DataError(
            f"{spec.source.file}: no agent, pipeline or tool {missing[0]!r}; there are: {', '.join([*own, *shared])}"
        )
    return [builder.get(name) if name in own else shared[name] for name in wanted]
