"""Checks of a request's messages beyond their types: supported content, and calls for all tool outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from ...store.tenant_view import TenantView
from ..content.conversation_history import text_of
from ..content.file_parts import Shown, shown_in
from ..content.message_content import Readable
from ..http.api_errors import ApiError

Said = Sequence[Mapping[str, Any]]


def check_messages(connection: Connection, scope: TenantView, messages: Said, shown: Shown) -> list[dict[str, Any]]:
    """Return `messages` with text as content, user names before their text, and the `images` that are `shown`. The
    legacy `function_call` and role `function` are converted to their current forms. Raises `ApiError` for content that
    no model here accepts."""
    return list(_with_calls(_with_texts(connection, scope, messages, shown)))


def _with_texts(connection: Connection, scope: TenantView, messages: Said, shown: Shown) -> Iterator[dict[str, Any]]:
    readable = Readable(connection, scope, shown)
    for number, one in enumerate(messages):
        content = readable(
            one.get("content"), f"messages[{number}].content", of_tool=one["role"] in ("tool", "function")
        )
        text, name = text_of(content), one.get("name")
        named = one["role"] == "user" and name not in (None, "", "user") and text
        seen = {"images": images, "parts": content} if (images := shown_in(content)) else {}
        yield {**one, "content": f"{name}: {text}" if named else text, **seen}


def _with_calls(messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    last = ""  # the id of the last `function_call`
    for number, one in enumerate(messages):
        calls = [_call(call) for call in one.get("tool_calls") or ()]
        if one["role"] == "assistant" and one.get("function_call") is not None:
            last = f"function_{number}"
            calls.append({"id": last, "function": one["function_call"]})
        if one["role"] == "function":
            one, last = {**one, "role": "tool", "tool_call_id": last}, ""
        yield {**one, "tool_calls": calls} if calls else {name: one[name] for name in one if name != "tool_calls"}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    custom = call.get("custom") or {}
    function = call.get("function") or {"name": custom.get("name"), "arguments": custom.get("input")}
    return {"id": call["id"], "function": function}


def check_calls(said: Said) -> None:
    """Raise `ApiError` if a tool message answers no call."""
    called: set[str] = set()
    for number, one in enumerate(said):
        called |= {call["id"] for call in one.get("tool_calls") or ()}
        if one["role"] == "tool" and one.get("tool_call_id") not in called:
            message = (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'."
            )
            raise ApiError(400, message, param=f"messages[{number}].role")
