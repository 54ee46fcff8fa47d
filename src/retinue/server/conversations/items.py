"""Items of conversations: their stored and displayed form (content as parts, with a status), and their storage."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from ...store.tables import conversations, items
from ...store.tenant_view import Kept, Page, TenantView
from ..http.api_errors import ApiError
from ..http.objects import Object, new_id
from .compaction import TYPE, expand_compactions
from .schemas import kind_of

# prefixes of item ids, by type
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "compaction": "cmp",
}
_WITH_STATUS = (
    "message", "function_call", "function_call_output", "mcp_call", "file_search_call", "code_interpreter_call"
)  # fmt: skip
# fields that are shown only if `include` asks for them
_ASKED_FOR = {"file_search_call": "results", "code_interpreter_call": "outputs", "reasoning": "encrypted_content"}


def item_view(item: Object, include: Collection[str]) -> Object:
    """Return an item without the field that needs an `include` the request lacks."""
    key = _ASKED_FOR.get(item["type"], "")
    return {**item, key: None} if key in item and f"{item['type']}.{key}" not in include else item


def stored_item(item: Mapping[str, Any]) -> Object:
    """Return a validated item in its stored form: with its type, and with its id if it had one."""
    kind = kind_of(item)
    form: Object = {name: value for name, value in item.items() if value is not None} | {"type": kind}
    if kind in _WITH_STATUS:
        form.setdefault("status", "completed")
    if kind == "message":
        content = item["content"]
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        form["content"] = [_part(part, assistant=item["role"] == "assistant") for part in parts]
    elif kind in ("function_call_output", "custom_tool_call_output") and not isinstance(item["output"], str):
        form["output"] = [_part(part, assistant=False) for part in item["output"]]
    elif kind == "reasoning":
        form.setdefault("summary", [])
    return form


def _part(part: Mapping[str, Any], *, assistant: bool) -> Object:
    """Convert a content part: an assistant's text is output, all other text is input, whatever type it was sent as."""
    match part["type"]:
        case "input_text" | "output_text" if assistant:
            noted = {name: part.get(name) or [] for name in ("annotations", "logprobs")}
            return {"type": "output_text", "text": part["text"], **noted}
        case "input_text" | "output_text":
            return {"type": "input_text", "text": part["text"]}
        case "refusal" if not assistant:
            return {"type": "input_text", "text": part["refusal"]}
        case "input_image":
            return {"detail": "auto", **part}
    return dict(part)


# ── storage ──────────────────────────────────────────────────────────────────────────────────────


def find_conversation(connection: Connection, scope: TenantView, conversation_id: str, *, lock: bool = False) -> Kept:
    """Return the row of this conversation, locked as `TenantView.find` does. Raises `ApiError` (404) if it does not
    exist."""
    row = scope.find(connection, conversations, conversation_id, lock=lock)
    if row is None:
        raise ApiError(404, f"Conversation with id '{conversation_id}' not found.")
    return row


def locked_conversation() -> ApiError:
    """Return the error for a conversation on which a run is active."""
    message = "Another process is currently operating on this conversation. Please retry in a few seconds."
    return ApiError(400, message, param="conversation", code="conversation_locked")


def find_item(connection: Connection, scope: TenantView, conversation_id: str, item_id: str) -> Kept | None:
    """Return the row of the item that clients know by this id, or `None`."""
    where = (items.c.conversation_id == conversation_id, items.c.item_id == item_id)
    rows, _ = scope.page(connection, items, Page(1), *where)
    return rows[0] if rows else None


def items_of(connection: Connection, scope: TenantView, conversation_id: str) -> list[Object]:
    """Return the conversation's items, oldest first. Raises `ApiError` if it does not exist."""
    find_conversation(connection, scope, conversation_id)
    query = select(items.c.body).where(items.c.tenant == scope.tenant, items.c.conversation_id == conversation_id)
    return list(connection.execute(query.order_by(items.c.number)).scalars())


def find_anywhere(connection: Connection, scope: TenantView, item_id: str) -> Object | None:
    """Return the latest item that clients know by this id, from any conversation that `scope` sees, or `None`."""
    query = select(items.c.body).join(conversations, conversations.c.id == items.c.conversation_id)
    query = query.where(*scope.own(conversations), items.c.tenant == scope.tenant, items.c.item_id == item_id)
    body: Object | None = connection.execute(query.order_by(items.c.number.desc()).limit(1)).scalar()
    return body


def append_items(
    connection: Connection, scope: TenantView, conversation_id: str, given: Sequence[Object], run_id: str | None = None
) -> list[Object]:
    """Add items to a conversation, within the caller's transaction. Return the added items, each with an id and, where
    its type has one, a status.

    With `run_id`, the run that produced them, duplicates are skipped, and nothing is added if the conversation was
    deleted meanwhile. Otherwise raises `ApiError`: 404 if the conversation or a referenced item does not exist, 400 if
    the conversation already has an item or a compaction item was not created for the tenant.
    """
    if run_id is None:
        find_conversation(connection, scope, conversation_id, lock=True)
    elif scope.find(connection, conversations, conversation_id, lock=True) is None:
        return []
    named = [_name_item(connection, scope, one) for one in given]
    ids = [one["id"] for one in named]
    there = select(items.c.item_id).where(items.c.conversation_id == conversation_id, items.c.item_id.in_(ids))
    seen, new = set(connection.execute(there).scalars()), list[Object]()
    for one in named:
        if one["id"] not in seen:
            seen.add(one["id"])
            new.append(one)
        elif run_id is None:
            message = f"Duplicate item found with id {one['id']}. Remove duplicate items from your input and try again."
            raise ApiError(400, message, param="items")
    common = {
        "tenant": scope.tenant,
        "created_at": int(time.time()),
        "conversation_id": conversation_id,
        "run_id": run_id,
    }
    if new:
        rows = [{**common, "id": new_id("item"), "item_id": one["id"], "body": one} for one in new]
        connection.execute(insert(items), rows)
    return new


def _name_item(connection: Connection, scope: TenantView, item: Mapping[str, Any]) -> Object:
    """Return an item in its stored form, with an id."""
    if kind_of(item) == "item_reference":
        if (body := find_anywhere(connection, scope, item["id"])) is None:
            raise ApiError(404, f"Item with id '{item['id']}' not found.", param="items")
        return body
    form = stored_item(item)
    if form["type"] == TYPE:
        expand_compactions(connection, scope.tenant, [form])  # raises if it is of another tenant
    return {**form, "id": item.get("id") or new_id(PREFIXES[form["type"]])}
