"""Serves agents, pipelines and tools to other programs as an MCP server, on standard input and output or over HTTP."""

from __future__ import annotations

import hmac
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from socket import socket
from typing import Any

import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool as ListedTool,
    ToolAnnotations,
)
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .._internal.containment import TimedOut, await_contained, describe_error
from .._internal.sync_bridge import run_to_completion
from ..agent import Agent
from ..core.events import Asked, Called, Observed, Stopped
from ..core.run_result import RunResult
from ..core.tools.signature import Argument, InvalidInput, Signature, build_signature
from ..core.tools.tool import Tool
from ..core.values import StopReason
from ..errors import ModelError, NodeFailed, RetinueError, ToolError, UsageError
from ..pipelines import Pipeline

logger = logging.getLogger(__name__)

Report = Callable[[str], Awaitable[None]]
"""Reports progress to the client."""

Serve = Callable[[dict[str, Any], Report], Awaitable[str]]

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PIPELINE_SECONDS = 600.0
_ENGINE = (  # codes of failures of which an engine's own words tell
    "rate_limit_exceeded", "context_length_exceeded", "invalid_request", "model_refused", "model_unavailable",
    "model_unreachable",
)  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A tool of our server: its listing, and the function that handles its calls."""

    listed: ListedTool
    call: Serve


def build_server(
    parts: Iterable[Agent | Pipeline | Tool], name: str = "retinue", descriptions: Mapping[str, str] = {}
) -> Server[Any]:
    """Return a server with `ask_NAME(question)` for each agent, `run_NAME(query)` for each pipeline, and tools under
    their own names.

    `descriptions` gives the descriptions of agents and pipelines, by name. Raises `UsageError` if there is nothing to
    serve, or if two parts would have the same name.
    """
    served: dict[str, Served] = {}
    for part in parts:
        one = _serve_part(part, descriptions.get(part.name, ""))
        if one.listed.name in served:
            raise UsageError(f"two served parts would both be called {one.listed.name!r}")
        served[one.listed.name] = one
    if not served:
        raise UsageError("nothing to serve: name agents, pipelines or tools")

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[one.listed for one in served.values()])

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        numbers = count(1)

        async def report(message: str) -> None:
            await context.session.report_progress(next(numbers), message=message)

        one = served.get(params.name)
        if one is None:
            return _make_tool_result(
                f"there is no tool {params.name[:80]!r}; there are: {', '.join(served)}", is_error=True
            )
        return await _call_tool(one, params.arguments or {}, report)

    async def list_resources(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    async def list_prompts(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        return ListPromptsResult(prompts=[])

    return Server(  # some clients ask for resources and prompts of any server
        name,
        version=import_module("retinue").__version__,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_prompts=list_prompts,
    )


async def _call_tool(one: Served, arguments: dict[str, Any], report: Report) -> CallToolResult:
    try:
        return _make_tool_result(await await_contained(one.call(arguments, report)))
    except (InvalidInput, RetinueError) as error:
        cause = error.__cause__ if isinstance(error, NodeFailed) else error
        reason = _hide_engine(error) if isinstance(cause, ModelError) else str(error)
    except TimedOut:
        reason = "it did not finish in time"
    except Exception as error:  # a tool may raise anything; the client's model reads it
        reason = describe_error(error)
    return _make_tool_result(reason, is_error=True)


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output until it disconnects. What tools print goes to standard error."""
    async with stdio_server() as (reading, writing):
        with redirect_stdout(sys.stderr):  # standard output belongs to the protocol
            await server.run(reading, writing, server.create_initialization_options())


def _serve_part(part: Agent | Pipeline | Tool, said: str) -> Served:
    if isinstance(part, Agent):
        name, question = _make_tool_name(f"ask_{part.name}"), {"question": Argument(str)}
        takes = build_signature(name, question)
        return Served(_list_tool(name, said or f"Ask the agent {part.name}.", takes, None), _make_asker(part, takes))
    if isinstance(part, Pipeline):
        if part.inputs != ("query",):
            raise UsageError(f"pipeline {part.name} cannot be served: its only input must be a query")
        said = said or f"Run the pipeline {part.name}."
        part = Tool(_make_tool_name(f"run_{part.name}"), part, said, timeout=PIPELINE_SECONDS)
    hints = ToolAnnotations(read_only_hint=part.effects == "read", idempotent_hint=part.effects != "once")
    return Served(_list_tool(part.name, part.description, part.signature, hints), _make_caller(part))


def _make_tool_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:64]


def _list_tool(name: str, description: str, takes: Signature, hints: ToolAnnotations | None) -> ListedTool:
    return ListedTool(name=name, description=description, input_schema=dict(takes.parameters), annotations=hints)


def _make_caller(tool: Tool) -> Serve:
    async def call(arguments: dict[str, Any], report: Report) -> str:
        if tool.approval:
            raise ToolError(f"{tool.name} runs only with a person's approval, and here is nobody to ask")
        return await tool.call(arguments)

    return call


def _make_asker(agent: Agent, takes: Signature) -> Serve:
    async def ask(arguments: dict[str, Any], report: Report) -> str:
        run = agent.start(takes.arguments(arguments)["question"])
        async with aclosing(run.events()) as events:  # cancelling the call cancels the run
            async for event in events:
                if message := _describe_progress(event):
                    await report(message)
        _check_ending(run.result)
        if run.result.answered:
            return run.result.answer
        best = "" if run.result.answer else run.result.best_answer
        raise ToolError(f"{run.result}{f' So far: {best}' if best else ''}")

    return ask


def _hide_engine(problem: object) -> str:
    """Return what the client is told of a model's failure, whose words and address are the operator's."""
    logger.warning("%s", problem)
    return "the model behind it cannot be reached, or failed; its operator's log says more"


def _check_ending(result: RunResult) -> None:
    """Raise `ToolError` if a run waits for a person, as there is none here, or if its model failed."""
    end = result.events[-1]
    if result.stop_reason is StopReason.AWAITING_HUMAN:
        calls = ", ".join(f"{one.tool}({json.dumps(one.tool_input, ensure_ascii=False)})" for one in result.waiting)
        raise ToolError(f"it needs a person's decision on {calls}, and here is nobody to ask: that call was not made")
    if isinstance(end, Stopped) and end.code in _ENGINE:
        raise ToolError(_hide_engine(end.detail))


def _describe_progress(event: Any) -> str:
    match event:
        case Asked(step=step):
            return f"step {step}: the model is asked"
        case Called(action=action):
            return f"{action.tool} is called"
        case Observed(observation=seen):
            return f"it came back: {seen.outcome}"
        case _:
            return ""


def _make_tool_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────


class KeyCheck:
    """Passes requests with `Authorization: Bearer KEY` to `app`."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        if scope["type"] == "lifespan" or hmac.compare_digest(given.encode(), self._wanted):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse(
                "required header: Authorization: Bearer KEY\n", 401, {"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)


def build_app(server: Server[Any], key: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the application, which serves `/mcp`. It accepts requests for loopback names and `hosts`, and none from
    browser pages: this prevents DNS rebinding."""
    names = [*_LOOPBACK, *hosts]
    security = TransportSecuritySettings(allowed_hosts=[*names, *(f"{name}:*" for name in names)], allowed_origins=[])
    return KeyCheck(server.streamable_http_app(streamable_http_path=PATH, transport_security=security), key)


def serve_http(server: Server[Any], key: str, listening: socket, hosts: Sequence[str] = ()) -> None:
    """Serve at a socket that listens, until interrupted, which raises `KeyboardInterrupt`."""
    http = uvicorn.Server(uvicorn.Config(build_app(server, key, hosts), log_level="warning", ws="none"))
    run_to_completion(http.serve(sockets=[listening]))
