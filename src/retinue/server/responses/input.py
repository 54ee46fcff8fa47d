"""The input of a response: its stored form, what it answers, and its conversion to a conversation for an agent."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ...store.tenant_view import TenantView
from ..content.conversation import SYSTEM, conversation, text_of
from ..content.message_files import Place, Readable, Shown, shown_in
from ..conversations.items import stored_item
from ..http.objects import Object, run_of_item
from .options import call_of

OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SPOKEN = {"message": "content", **dict.fromkeys(OUTPUTS, "output")}
_ANSWERS = (*OUTPUTS, "mcp_approval_response")
_CALLS = ("function_call", "custom_tool_call", "mcp_approval_request", "reasoning")
_DONE_HERE = ("mcp_call", "file_search_call", "code_interpreter_call")
Items = Sequence[Mapping[str, Any]]


def as_items(given: Any) -> list[Object]:
    """Return the input as items in stored form, with content as parts. Only references and the server's own calls keep
    their ids, by which their runs are found."""
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    items = [stored_item(one) for one in given or ()]
    for item in items:
        ours = item["type"] in _DONE_HERE and run_of_item(item.get("id") or "")
        if item["type"] != "item_reference" and not ours:
            item.pop("id", None)
    return items


def places_of(items: Items) -> Iterator[Place]:
    """Yield the contents of the items of a request, with their places."""
    for number, item in enumerate(items):
        if name := _SPOKEN.get(item["type"]):
            yield Place(f"input[{number}].{name}", item.get("role") or "tool", item[name])


def readable_items(connection: Connection, scope: TenantView, items: Items, shown: Shown | None = None) -> list[Object]:
    """Return the `items` of a request, with text files inlined and the images marked that are `shown`. Raises
    `ApiError` for content that no model here accepts."""
    readable, there = Readable(connection, scope, shown), [dict(item) for item in items]
    for number, item in enumerate(there):
        if name := _SPOKEN.get(item["type"]):
            item[name] = readable(item[name], f"input[{number}].{name}", of_tool=name == "output")
    return there


def readable_history(
    connection: Connection, scope: TenantView, items: Items, shown: Shown | None = None
) -> list[Object]:
    """Return stored `items` with text files inlined, as far as possible, and the images marked that are `shown`."""
    readable, there = Readable(connection, scope, shown), [dict(item) for item in items]
    for item in reversed(there):  # the newest files are inlined first
        if name := _SPOKEN.get(item["type"]):
            item[name] = readable.kept(item[name])
    return there


# ── answers to pending calls ─────────────────────────────────────────────────────────────────────


def list_last_answers(items: Items, sets: Collection[frozenset[str]] = ()) -> list[tuple[str, str]]:
    """Return what the last items answer to pending calls, by call id; an approval is in the form that `parse_decision`
    reads.

    Some clients repeat each call before its output. If the trailing answers match none of the `sets` of calls, earlier
    answers are therefore included until they make up one of the sets.
    """
    answers: list[tuple[str, str]] = []
    row: list[tuple[str, str]] | None = None  # the trailing answers, with nothing in between
    most = max(map(len, sets), default=0)
    for item in reversed(items):
        if item["type"] in _ANSWERS:
            if row is not None and len(answers) >= most:
                break
            answers.append(_answer(item))
            continue
        row = row if row is not None else answers[::-1]
        if item["type"] not in _CALLS or frozenset(call for call, _ in answers) in sets:
            break
    return answers[::-1] if row is None or frozenset(call for call, _ in answers) in sets else row


def find_last_answered(items: Items) -> str | None:
    """Return the id of the call that the last answer among the items is for, or `None`."""
    return next((_answer(item)[0] for item in reversed(items) if item["type"] in _ANSWERS), None)


def _answer(item: Mapping[str, Any]) -> tuple[str, str]:
    if item["type"] in OUTPUTS:
        return item["call_id"], text_of(item["output"])
    call = f"call_{item['approval_request_id'].partition('_')[2]}"
    rejected = {"decision": "reject", "message": item.get("reason") or ""}
    return call, "approve" if item["approve"] else json.dumps(rejected)


def find_orphan_output(items: Items) -> str | None:
    """Return the id of a call that has an output in `items` but no call, or `None`."""
    calls = {item["call_id"] for item in items if call_of(item) is not None}
    return next((one["call_id"] for one in items if one["type"] in OUTPUTS and one["call_id"] not in calls), None)


# ── as a conversation ────────────────────────────────────────────────────────────────────────────


def rules(items: Items) -> list[str]:
    """Return the text of system and developer messages."""
    return [text_of(item["content"]) for item in items if item["type"] == "message" and item["role"] in SYSTEM]


def turns(items: Items) -> list[dict[str, Any]]:
    """Return the items as a conversation, including client and server tool calls."""
    return conversation(list(_list_messages(items)))


def items_of_turns(said: Items) -> Iterator[Object]:
    """Yield the turns of a conversation as items."""
    for turn in said:
        if turn["role"] == "tool":
            yield {"type": OUTPUTS[0], "call_id": turn["tool_call_id"], "output": turn["content"]}
            continue
        if turn["content"]:
            yield {"type": "message", "role": turn["role"], "content": turn["content"]}
        for call in turn.get("tool_calls", ()):
            named = {"name": call["name"], "arguments": call["arguments"]}
            yield {"type": "function_call", "call_id": call["id"], **named}


def _list_messages(items: Items) -> Iterator[Mapping[str, Any]]:
    for item in items:
        match item["type"]:
            case "message" if item["role"] not in SYSTEM:
                yield {"role": item["role"], "content": item["content"], "images": shown_in(item["content"])}
            case _ if (function := call_of(item)) is not None:
                yield _calling(item["call_id"], function)
            case kind if kind in OUTPUTS:
                output, shown = item["output"], shown_in(item["output"])
                yield {"role": "tool", "tool_call_id": item["call_id"], "content": output, "images": shown}
            case _ if (done := _done_by_server(item)) is not None:
                call_id = item.get("id") or ""
                yield _calling(call_id, {"name": done.name, "arguments": done.arguments})
                yield {"role": "tool", "tool_call_id": call_id, "content": done.output}


def _calling(call_id: str, function: Mapping[str, Any]) -> Object:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "function": function}]}


class _Done(NamedTuple):
    """A completed server-side call and its output; `arguments` is JSON text."""

    name: str
    arguments: str
    output: str


def _done_by_server(item: Mapping[str, Any]) -> _Done | None:
    """Return the server-side call that an item shows, or `None` if it is another item or unfinished."""
    match item:
        case {"type": "mcp_call", "name": name, "arguments": arguments}:
            output, error = item.get("output"), item.get("error")
            if output is None and error is None:
                return None
            return _Done(name, arguments, _failure(error) if output is None else output)
        case {"type": "file_search_call", "queries": queries, "results": [*found]}:
            texts = [f"{one.get('filename') or ''}: {one.get('text') or ''}" for one in found]
            asked = json.dumps({"query": ", ".join(queries)})
            return _Done("file_search", asked, "\n".join(texts) or "Nothing was found.")
        case {"type": "code_interpreter_call", "code": code, "outputs": [*outputs]}:
            logs = [one["logs"] for one in outputs if one.get("type") == "logs"]
            return _Done("code_interpreter", json.dumps({"code": code or ""}), "\n".join(logs))
    return None


def _failure(error: Any) -> str:
    """Return the message of an MCP call's `error`, whose content may be any JSON."""
    said = (error.get("content") or error) if isinstance(error, Mapping) else error
    if isinstance(said, list) and all(isinstance(part, Mapping) for part in said):
        said = text_of(said)
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def count_tokens(texts: Iterable[str]) -> int:
    """Estimate the number of tokens in texts; engines count exactly."""
    return sum(len(text) // 3 + 4 for text in texts)
