"""Serves agents, pipelines and tools to other programs as an MCP server, on standard input and output or over HTTP."""

from __future__ import annotations

import hmac
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, redirect_stdout
from importlib import import_module
from itertools import count
from socket import socket
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .._internal.containment import TimedOut, await_contained, describe_error
from .._internal.sync_bridge import run_to_completion
from ..agent import Agent
from ..core.events import Asked, Called, Observed, Stopped
from ..core.tools.signature import Argument, InvalidInput, Signature, build_signature
from ..core.tools.tool import Tool
from ..core.values import StopReason
from ..errors import ModelError, NodeFailed, RetinueError, ToolError, UsageError
from ..pipelines import Pipeline

logger = logging.getLogger(__name__)

Report = Callable[[str], Awaitable[None]]
"""Reports progress to the client."""

Serve = Callable[[dict[str, Any], Report], Awaitable[str]]
"""Handles a call of a tool of our server: its arguments to its result."""

PATH = "/mcp"
PIPELINE_SECONDS = 600.0
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ENGINE = (  # codes of failures of which an engine's own words tell
    "rate_limit_exceeded", "context_length_exceeded", "invalid_request", "model_refused", "model_unavailable",
    "model_unreachable",
)  # fmt: skip


def build_server(
    parts: Iterable[Agent | Pipeline | Tool], name: str = "retinue", descriptions: Mapping[str, str] = {}
) -> Server[Any]:
    """Return a server with `ask_NAME(question)` for each agent, `run_NAME(query)` for each pipeline, and tools under
    their own names.

    `descriptions` gives the descriptions of agents and pipelines, by name. Raises `UsageError` if there is nothing to
    serve, or if two parts would have the same name.
    """
    served: dict[str, tuple[types.Tool, Serve]] = {}
    for part in parts:
        listed, serve = _serve_part(part, descriptions.get(part.name, ""))
        if listed.name in served:
            raise UsageError(f"two served parts would both be called {listed.name!r}")
        served[listed.name] = listed, serve
    if not served:
        raise UsageError("nothing to serve: name agents, pipelines or tools")

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[listed for listed, _ in served.values()])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        numbers = count(1)

        async def report(message: str) -> None:
            await context.session.report_progress(next(numbers), message=message)

        if params.name not in served:
            reason = f"there is no tool {params.name[:80]!r}; there are: {', '.join(served)}"
            return types.CallToolResult(content=[types.TextContent(text=reason)], is_error=True)
        return await _call_tool(served[params.name][1], params.arguments or {}, report)

    async def list_resources(context: object, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def list_prompts(context: object, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[])

    return Server(  # some clients ask for resources and prompts of any server
        name,
        version=import_module("retinue").__version__,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_prompts=list_prompts,
    )


async def _call_tool(serve: Serve, arguments: dict[str, Any], report: Report) -> types.CallToolResult:
    try:
        return types.CallToolResult(content=[types.TextContent(text=await await_contained(serve(arguments, report)))])
    except (InvalidInput, RetinueError) as error:
        cause = error.__cause__ if isinstance(error, NodeFailed) else error
        reason = _hide_engine(error) if isinstance(cause, ModelError) else str(error)
    except TimedOut:
        reason = "it did not finish in time"
    except Exception as error:  # a tool may raise anything; the client's model reads it
        reason = describe_error(error)
    return types.CallToolResult(content=[types.TextContent(text=reason)], is_error=True)


def _serve_part(part: Agent | Pipeline | Tool, said: str) -> tuple[types.Tool, Serve]:
    """Return how a part is listed, and what handles its calls."""
    prefix = "ask" if isinstance(part, Agent) else "run"
    name = re.sub(r"[^A-Za-z0-9_]", "_", f"{prefix}_{part.name}")[:64]
    if isinstance(part, Agent):
        takes = build_signature(name, {"question": Argument(str)})
        said = said or f"Ask the agent {part.name}."
        return types.Tool(name=name, description=said, input_schema=dict(takes.parameters)), _make_asker(part, takes)
    if isinstance(part, Pipeline):
        if part.inputs != ("query",):
            raise UsageError(f"pipeline {part.name} cannot be served: its only input must be a query")
        part = Tool(name, part, said or f"Run the pipeline {part.name}.", timeout=PIPELINE_SECONDS)
    tool = part

    async def call(arguments: dict[str, Any], report: Report) -> str:
        if tool.approval:
            raise ToolError(f"{tool.name} runs only with a person's approval, and here is nobody to ask")
        return await tool.call(arguments)

    hints = types.ToolAnnotations(read_only_hint=tool.effects == "read", idempotent_hint=tool.effects != "once")
    schema = dict(tool.signature.parameters)
    return types.Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints), call


def _make_asker(agent: Agent, takes: Signature) -> Serve:
    async def ask(arguments: dict[str, Any], report: Report) -> str:
        run = agent.start(takes.arguments(arguments)["question"])
        async with aclosing(run.events()) as events:  # cancelling the call cancels the run
            async for event in events:
                match event:
                    case Asked(step=step):
                        await report(f"step {step}: the model is asked")
                    case Called(action=action):
                        await report(f"{action.tool} is called")
                    case Observed(observation=seen):
                        await report(f"it came back: {seen.outcome}")
                    case _:
                        pass
        result = run.result
        end = result.events[-1]
        if result.answered:
            return result.text
        if result.stop_reason is StopReason.AWAITING_HUMAN:
            calls = ", ".join(f"{one.tool}({json.dumps(one.tool_input, ensure_ascii=False)})" for one in result.waiting)
            here = "and here is nobody to ask: that call was not made"
            raise ToolError(f"it needs a person's decision on {calls}, {here}")
        if isinstance(end, Stopped) and end.code in _ENGINE:
            raise ToolError(_hide_engine(end.detail))
        best = "" if result.text else result.best_answer
        raise ToolError(f"{result}{f' So far: {best}' if best else ''}")

    return ask


def _hide_engine(problem: object) -> str:
    """Return what the client is told of a model's failure, whose words and address are the operator's."""
    logger.warning("%s", problem)
    return "the model behind it cannot be reached, or failed; its operator's log says more"


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output until it disconnects. What tools print goes to standard error."""
    async with stdio_server() as (reading, writing):
        with redirect_stdout(sys.stderr):  # standard output belongs to the protocol
            await server.run(reading, writing, server.create_initialization_options())


def build_app(server: Server[Any], key: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the application, which serves `/mcp` to requests with `Authorization: Bearer KEY`. It accepts requests for
    loopback names and `hosts`, and none from browser pages: this prevents DNS rebinding."""
    names = [*_LOOPBACK, *hosts]
    security = TransportSecuritySettings(allowed_hosts=[*names, *(f"{name}:*" for name in names)], allowed_origins=[])
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    refusal = PlainTextResponse("required header: Authorization: Bearer KEY\n", 401, {"WWW-Authenticate": "Bearer"})

    async def check_key(scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        accepted = scope["type"] == "lifespan" or hmac.compare_digest(given.encode(), f"Bearer {key}".encode())
        await (app if accepted else refusal)(scope, receive, send)

    return check_key


def serve_http(server: Server[Any], key: str, listening: socket, hosts: Sequence[str] = ()) -> None:
    """Serve at a socket that listens, until interrupted, which raises `KeyboardInterrupt`."""
    http = uvicorn.Server(uvicorn.Config(build_app(server, key, hosts), log_level="warning", ws="none"))
    run_to_completion(http.serve(sockets=[listening]))
