"""A server's messages, taken as far as they can be read: one wrong part does not take the rest along.

First the messages themselves, then the handshake with its list of tools, and the results of calls as models read them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import ValidationError

from ..core.files import read_file
from ..core.tools.result import take_file
from ..core.tools.tool import Effects
from ..errors import DataError, ToolError
from .server_address import Server
from .tool_pins import Malformed, Offer

OWN_FAILURE = -secrets.randbits(60)  # of a request, with `data` of {"sent", "status"}; no server can guess it
MAX_TOOLS = 500
MAX_RESULT = 1024 * 1024  # bytes
_MAX_PART = 500  # characters of a part of an unknown type
_BOM = b"\xef\xbb\xbf"
_ESCAPES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")  # group 1: half a pair
_ID = re.compile(rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,64})")')
_RAW = ("tools/list", "tools/call")


def read_messages(data: bytes, *, guess: bool = False) -> list[types.JSONRPCMessage]:
    """Return the messages in a line or a body; a batch has several.

    What is not UTF-8, and halves of surrogate pairs, are replaced. An answer that is not as it must be becomes an error
    for the request that it answers; `guess`: also one that is not JSON, if it contains an id. Raises `ValueError` if
    there is no message.
    """
    with suppress(ValueError):
        return [types.jsonrpc_message_adapter.validate_json(data, by_name=False)]
    whole = _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], data.removeprefix(_BOM))
    try:
        value = json.loads(whole.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = _ID.search(whole) if guess and whole.startswith(b"{") and b'"method"' not in whole else None
        if found is None:
            raise ValueError("not JSON") from None
        answered = int(found[1]) if found[1] else found[2].decode("utf-8", "replace")
        return [_make_error(answered, types.PARSE_ERROR, "its answer cannot be read: it is not JSON")]
    messages = [message for one in (value if isinstance(value, list) else [value]) for message in _read_message(one)]
    if not messages:
        raise ValueError("not a message")
    return messages


def write_message(message: types.JSONRPCMessage) -> bytes:
    """Return a message as a line without its end."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _read_message(value: Any) -> Iterator[types.JSONRPCMessage]:
    if not isinstance(value, dict):
        return
    answered, error = value.get("id"), value.get("error")
    try:
        yield types.jsonrpc_message_adapter.validate_python(value | {"jsonrpc": "2.0"}, by_name=False)
    except ValueError:
        if isinstance(answered, float) and answered.is_integer():
            yield from _read_message(value | {"id": int(answered)})
        elif "method" in value or isinstance(answered, bool) or not isinstance(answered, int | str):
            return
        elif error is None:
            yield _make_error(answered, types.PARSE_ERROR, "its answer cannot be read: want an object as its result")
        else:
            said = error.get("message") if isinstance(error, dict) else error
            yield _make_error(answered, types.INTERNAL_ERROR, said if isinstance(said, str) else json.dumps(said))


def _make_error(answered: int | str, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=answered, error=types.ErrorData(code=code, message=message))


class _RawResult(Exception):
    """A result on its way past the checks of the SDK's session, which refuse the whole for one part."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__()
        self.result = result


class Dispatcher(JSONRPCDispatcher[Any]):
    """Matches answers to requests. Results about tools come as the server sent them (`request_raw_result`); of its
    answer to `initialize`, only the version matters here."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request and return its result. Raises `MCPError`."""
        result = await super().send_raw_request(method, params, opts, **related)
        if method in _RAW:
            raise _RawResult(result)
        if method == "initialize":
            version = result.get("protocolVersion")
            return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "", "version": ""}}
        return result


async def request_raw_result(session: ClientSession, request: types.Request[Any, Any]) -> Mapping[str, Any]:
    """Return the result of a request about tools as the server sent it. Raises `MCPError`, and `ToolError` if there is
    none."""
    try:
        await session.send_request(request, type(request))
    except _RawResult as answer:
        return answer.result
    raise ToolError("the request was not sent")


@dataclass(slots=True)
class Disconnect:
    """Records the first reason why a connection became unusable.

    `complaint` is the last line the server wrote to its error output. `unreachable` means that nothing listens at the
    address, perhaps not yet.
    """

    event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    complaint: str = ""
    unreachable: bool = False

    def mark_lost(self, reason: str) -> None:
        """Mark the connection as lost."""
        self.reason = self.reason or reason
        self.event.set()

    def __str__(self) -> str:
        return f"{self.reason or 'the connection broke off'}{f' ({self.complaint})' if self.complaint else ''}"


# ── the handshake, and the list of tools ──────────────────────────────────────────────────────────


async def shake_hands(session: ClientSession) -> None:
    """Initialize the session. Servers that support only the successor of `initialize` refuse it, so that is tried
    next."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code in (types.CONNECTION_CLOSED, OWN_FAILURE):
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
        page = await request_raw_result(
            session, types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
        )
        listed, cursor = page.get("tools"), page.get("nextCursor")
        if not isinstance(listed, list):
            raise ToolError("what it says is not valid MCP: want a list of tools")
        found += [_read_offer(tool, number) for number, tool in enumerate(listed, len(found))]
        if len(found) > MAX_TOOLS:
            raise ToolError(f"it offers more than {MAX_TOOLS} tools")
        if not cursor or not isinstance(cursor, str):
            return found


def _read_offer(tool: Any, number: int) -> Offer | Malformed:
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


def describe_first_error(error: BaseException, server: Server) -> str:
    """Return the first cause of an exception, as text for a person."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case ToolError():
            return str(error).removeprefix(f"{server.name}: ")
        case TimeoutError():
            return f"it did not answer within {server.seconds:g} seconds"
        case MCPError():
            return error.message[:300]
        case ValidationError():
            wrong = error.errors(include_url=False, include_input=False)[0]
            return f"what it says is not valid MCP: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"[:300]
        case _:
            return f"{type(error).__name__}: {error!s:.300}"


# ── the result of a call ──────────────────────────────────────────────────────────────────────────


def read_result_text(result: Mapping[str, Any]) -> str:
    """Return the text of a server's result, with notes in place of other content. Raises `ToolError` if the result is
    an error, none at all, or larger than 1 MiB."""
    if result.get("resultType", "complete") != "complete":
        raise ToolError(
            "it requires input from a person in the middle of the call (elicitation), which is not supported"
        )
    parts, structured = result.get("content"), result.get("structuredContent")
    if not isinstance(parts, list | str) and structured is None:
        raise ToolError("it answered what is no result of a tool: want a list as its content")
    text = "\n".join(map(_read_part_text, [parts] if isinstance(parts, str) else parts or ()))
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    if len(text.encode(errors="replace")) > MAX_RESULT:
        raise ToolError(f"the result is larger than {MAX_RESULT:,} bytes")
    if result.get("isError"):
        raise ToolError(text or "it failed and does not say why")
    return text


def _take_file(data: str, uri: str, media_type: Any) -> str:
    """Take a file for the model, or tell of it if models read none such, whatever it is said to be."""
    try:
        content = base64.b64decode(data, validate=True)
        read_file(content)
    except (ValueError, DataError):
        return f"({uri or 'a file'}, {media_type}, {len(data) * 3 // 4:,} bytes: not shown)"
    return take_file(content, uri.rpartition("/")[2][:100])


def _read_part_text(part: Any) -> str:
    match part:
        case str(text) | {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio", "data": str(data)}:
            return _take_file(data, "", part.get("mimeType"))
        case {"type": "resource_link", "uri": str(uri)}:
            return f"({part.get('name') or 'a resource'}: {uri})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"blob": str(data), **resource}}:
            return _take_file(data, str(resource.get("uri") or ""), resource.get("mimeType"))
        case _:  # of a type that is not known, or not as its type must be
            said = json.dumps(part, ensure_ascii=False)
            return said if len(said) <= _MAX_PART else f"{said[:_MAX_PART]} …"
