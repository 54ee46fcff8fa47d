"""A server's messages, taken as far as they can be read: one wrong part does not take the rest along."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    Request,
    jsonrpc_message_adapter,
)

from ..errors import ToolError

_BOM = b"\xef\xbb\xbf"
_ESCAPES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")  # group 1: half a pair
_ID = re.compile(rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,64})")')
_RAW = ("tools/list", "tools/call")


def read_messages(data: bytes, *, guess: bool = False) -> list[JSONRPCMessage]:
    """Return the messages in a line or a body; a batch has several.

    What is not UTF-8, and halves of surrogate pairs, are replaced. An answer that is not as it must be becomes an error
    for the request that it answers; `guess`: also one that is not JSON, if it contains an id. Raises `ValueError` if
    there is no message.
    """
    try:
        return [jsonrpc_message_adapter.validate_json(data, by_name=False)]
    except ValueError:
        pass
    whole = _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], data.removeprefix(_BOM))
    try:
        value = json.loads(whole.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = _ID.search(whole) if guess and whole.startswith(b"{") and b'"method"' not in whole else None
        if found is None:
            raise ValueError("not JSON") from None
        return [_unreadable(int(found[1]) if found[1] else found[2].decode("utf-8", "replace"), "it is not JSON")]
    messages = [message for one in (value if isinstance(value, list) else [value]) for message in _message(one)]
    if not messages:
        raise ValueError("not a message")
    return messages


def write_message(message: JSONRPCMessage) -> bytes:
    """Return a message as a line without its end."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _message(value: Any) -> Iterator[JSONRPCMessage]:
    if not isinstance(value, dict):
        return
    try:
        yield jsonrpc_message_adapter.validate_python(value | {"jsonrpc": "2.0"}, by_name=False)
    except ValueError:
        answered, error = value.get("id"), value.get("error")
        answered = int(answered) if isinstance(answered, float) and answered.is_integer() else answered
        if "method" in value or isinstance(answered, bool) or not isinstance(answered, int | str):
            return
        if answered != value["id"] or type(answered) is not type(value["id"]):
            yield from _message(value | {"id": answered})
        elif error is None:
            yield _unreadable(answered, "want an object as its result")
        else:
            said = error.get("message") if isinstance(error, dict) else error
            text = said if isinstance(said, str) else json.dumps(said)
            yield JSONRPCError(jsonrpc="2.0", id=answered, error=ErrorData(code=INTERNAL_ERROR, message=text))


def _unreadable(answered: int | str, why: str) -> JSONRPCError:
    problem = ErrorData(code=PARSE_ERROR, message=f"its answer cannot be read: {why}")
    return JSONRPCError(jsonrpc="2.0", id=answered, error=problem)


class _RawResult(Exception):
    """A result on its way past the checks of the SDK's session, which refuse the whole for one part."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__()
        self.result = result


class Dispatcher(JSONRPCDispatcher[Any]):
    """Matches answers to requests. Results about tools come as the server sent them (`raw_result`); of its answer to
    `initialize`, only the version matters here."""

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


async def raw_result(session: ClientSession, request: Request[Any, Any]) -> Mapping[str, Any]:
    """Return the result of a request about tools as the server sent it. Raises `MCPError`, and `ToolError` if there is
    none."""
    try:
        await session.send_request(request, type(request))
    except _RawResult as answer:
        return answer.result
    raise ToolError("the request was not sent")
