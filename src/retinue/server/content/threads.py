"""Threads as they are stored: with their messages, and with the resources of hosted tools.

A message is given as JSON, in the form in which the assistants API takes it: `role`, `content` (text or parts),
`attachments`, `metadata` and `assistant_id`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection

from ...store.run_queries import thread_holder
from ...store.run_row import RunRow
from ...store.tables import files, messages, threads
from ...store.tenant_view import Kept, TenantView
from ...store.thread_messages import thread_by_key
from ..files.routes import file_of
from ..files.schemas import Expiry, FileWish, StoreCreate
from ..files.stores import attach, make_store, store_of
from ..http.api_errors import ApiError, first_error, missing_parameter, not_found
from ..http.authentication import has_scope, missing_scope
from ..http.objects import Object, find_row, new_id

Given = Sequence[Mapping[str, Any]]
_OF_THREAD = Expiry(anchor="last_active_at", days=7)  # as at OpenAI, since nobody deletes such a store


def add_thread(connection: Connection, scope: TenantView, given: Mapping[str, Any], key: str | None = None) -> Kept:
    """Create a thread with its `messages`, `metadata` and `tool_resources`, within the caller's transaction. Return its
    row."""
    body = {"tool_resources": given.get("tool_resources"), "metadata": given.get("metadata") or {}}
    body = with_stores(connection, scope, body, _OF_THREAD)
    own = key and scope.own_name(key)
    values: Object = {"id": new_id("thread"), "created_at": int(time.time()), "key": own, "body": body}
    scope.insert(connection, threads, values)
    add_messages(connection, scope, values["id"], given.get("messages") or ())
    return find_row(connection, scope, threads, values["id"])  # messages may have added files


def change_thread(connection: Connection, scope: TenantView, thread_id: str, given: Mapping[str, Any]) -> Kept:
    """Change the `metadata` and `tool_resources` of a thread that are given. Return its row."""
    before = find_row(connection, scope, threads, thread_id, lock=True)
    news = {name: given[name] for name in ("tool_resources", "metadata") if name in given}
    news |= {"metadata": news["metadata"] or {}} if "metadata" in news else {}
    body = with_stores(connection, scope, {**before.body, **news}, _OF_THREAD)
    row = scope.change(connection, threads, thread_id, {"body": body})
    assert row is not None
    return row


def find_or_add_thread(connection: Connection, scope: TenantView, key: str | None) -> str:
    """Return the id of the thread with this id or key, which must be idle. An unknown key creates a thread, and so does
    `None`. Raises `ApiError`."""
    if key is None:
        return str(add_thread(connection, scope, {}).id)
    if len(key) > 256 or "\0" in key:
        raise ApiError(400, "Invalid 'thread_id': expected at most 256 characters, without NUL.", param="thread_id")
    row = find_thread(connection, scope, key, lock=True)
    if row is None and key.startswith("thread_"):
        raise not_found("thread", key)
    row = row or add_thread(connection, scope, {}, key=key)
    if (active := thread_holder(connection, row.id)) is not None:
        raise ApiError(400, f"Thread {row.id} already has an active run {active.id}.")
    return str(row.id)


def find_thread(connection: Connection, scope: TenantView, key: str, *, lock: bool = False) -> Kept | None:
    """Return the thread with this id or key, or `None`; `lock` as in `TenantView.find`."""
    row = scope.find(connection, threads, key, lock=lock)
    if row is not None or key.startswith("thread_"):
        return row
    return thread_by_key(connection, scope.tenant, scope.own_name(key), lock=lock)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def add_messages(connection: Connection, scope: TenantView, thread_id: str, given: Given) -> list[Mapping[str, Any]]:
    """Add messages to an existing thread, within the caller's transaction. Return the values of their columns."""
    check_images(connection, scope, given)
    attach_to_thread(connection, scope, thread_id, given)
    now = int(time.time())
    same = {"created_at": now, "thread_id": thread_id, "run_id": None}
    added: list[Mapping[str, Any]] = [{**same, "id": new_id("msg"), "body": _stored_body(one, now)} for one in given]
    for values in added:
        scope.insert(connection, messages, values)
    return added


def _stored_body(given: Mapping[str, Any], now: int) -> Object:
    """Return the stored body of a message, without its ids."""
    content = given["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "role": given["role"],
        "content": [_stored_part(part) for part in parts],
        "assistant_id": given.get("assistant_id"),
        "attachments": given.get("attachments") or [],
        "metadata": given.get("metadata") or {},
        "status": "completed",
        "completed_at": now,
        "incomplete_at": None,
        "incomplete_details": None,
    }


def _stored_part(part: Mapping[str, Any]) -> Object:
    """Return a content part in its stored form, in which the text is an object."""
    kind = part["type"]
    if kind == "text":
        return {"type": "text", "text": {"value": part["text"], "annotations": []}}
    return {"type": kind, kind: {"detail": "auto"} | part[kind]}


def check_images(connection: Connection, scope: TenantView, given: Given) -> None:
    """Raise `ApiError` if a message refers to an image file that does not exist."""
    for part in (part for one in given if not isinstance(one["content"], str) for part in one["content"]):
        if part["type"] == "image_file" and scope.find(connection, files, part["image_file"]["file_id"]) is None:
            message = f"No such File object: {part['image_file']['file_id']}"
            raise ApiError(400, message, param="content.image_file.file_id")


# ── the resources of hosted tools ────────────────────────────────────────────────────────────────────────────────────


class Resources(NamedTuple):
    """The ids of the vector stores and files available to a run's hosted tools."""

    stores: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def resources_of(connection: Connection, run: RunRow) -> Resources:
    """Return the resources of a run's hosted tools: its assistant's, and those of its thread at this time."""
    thread = TenantView(run.tenant).find(connection, threads, run.thread_id) if run.thread_id else None
    both = [run.request.get("tool_resources"), thread.body["tool_resources"] if thread is not None else None]
    stores = [id_ for one in both for id_ in _ids(one, "file_search", "vector_store_ids")]
    named = [id_ for one in both for id_ in _ids(one, "code_interpreter", "file_ids")]
    return Resources(tuple(dict.fromkeys(stores)), tuple(dict.fromkeys(named)))


def _ids(resources: Mapping[str, Any] | None, tool: str, name: str) -> Sequence[str]:
    return ((resources or {}).get(tool) or {}).get(name) or ()


def with_stores(connection: Connection, scope: TenantView, body: Object, expires: Expiry | None = None) -> Object:
    """Return the `body` of an assistant or thread with the vector stores created that it asks for. Raises
    `ApiError`."""
    resources = body.get("tool_resources") or {}
    wishes = (resources.get("file_search") or {}).get("vector_stores")
    if wishes is None:
        return body
    if wishes and not has_scope(scope.scopes, "agents"):  # as for POST /vector_stores
        raise missing_scope("agents")
    ids = list(_ids(resources, "file_search", "vector_store_ids"))
    for number, wish in enumerate(wishes):
        try:
            given = StoreCreate.model_validate(wish).model_copy(update={"expires_after": expires})
        except ValidationError as error:
            where = ("body", "tool_resources", "file_search", "vector_stores", number)
            found = [{**one, "loc": (*where, *one["loc"])} for one in error.errors(include_url=False)]
            raise first_error(found) from error
        ids.append(make_store(connection, scope, given).id)
    return {**body, "tool_resources": {**resources, "file_search": {"vector_store_ids": ids}}}


def attach_to_thread(connection: Connection, scope: TenantView, thread_id: str, given: Given) -> None:
    """Make the attachments of new messages available to the thread's hosted tools. Raises `ApiError`."""
    attachments = [one for message in given for one in message.get("attachments") or ()]
    searched, run = _attached_files(attachments, "file_search"), _attached_files(attachments, "code_interpreter")
    thread = scope.find(connection, threads, thread_id, lock=True) if searched or run else None
    if thread is None:
        return
    resources: Object = dict(thread.body["tool_resources"] or {})
    if searched:
        ids = _ids(resources, "file_search", "vector_store_ids")
        store = (
            store_of(connection, scope, ids[0], used=True, lock=True)
            if ids
            else make_store(connection, scope, StoreCreate(expires_after=_OF_THREAD))
        )
        attach(connection, scope, store, [FileWish(file_id=one) for one in searched])
        resources["file_search"] = {"vector_store_ids": [store.id]}
    if run:
        for one in run:
            file_of(connection, scope, one, "attachments")
        before = _ids(resources, "code_interpreter", "file_ids")
        resources["code_interpreter"] = {"file_ids": list(dict.fromkeys([*before, *run]))}
    scope.change(connection, threads, thread_id, {"body": {**thread.body, "tool_resources": resources}})


def check_attachments(connection: Connection, scope: TenantView, thread_id: str, given: Given) -> None:
    """Check that `attach_to_thread` would succeed now, and roll back. Raises `ApiError` if not."""
    if not any(one.get("attachments") for one in given):
        return
    trial = connection.begin_nested()
    try:
        attach_to_thread(connection, scope, thread_id, given)
    finally:
        trial.rollback()


def _attached_files(attachments: Iterable[Mapping[str, Any]], tool: str) -> list[str]:
    """Return the ids of the files that are attached for a tool."""
    wanted = [one for one in attachments if any(each["type"] == tool for each in one.get("tools") or ())]
    if any(one.get("file_id") is None for one in wanted):
        raise missing_parameter("attachments[0].file_id")
    return list(dict.fromkeys(one["file_id"] for one in wanted))
