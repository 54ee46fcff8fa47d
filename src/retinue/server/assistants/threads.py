"""`/threads`: conversations. Listing them with `GET /threads` is an extension."""

from __future__ import annotations

import time

from fastapi import APIRouter
from sqlalchemy import Connection, select

from ...store.memory_states import forget_thread
from ...store.run_queries import delete_thread_runs, thread_holder
from ...store.run_row import RunRow
from ...store.tables import threads
from ...store.tenant_view import Kept, TenantView
from ..context import ContextDep
from ..wire.api_errors import ApiError, not_found
from ..wire.ids import new_id
from ..wire.lookup import Wanted, deletion_object, find_row, list_rows
from ..wire.objects import Object, thread_object
from ..wire.request_body import JsonRoute
from .messages import add_messages
from .schemas import ThreadCreate, ThreadUpdate
from .tool_resources import with_thread_stores

router = APIRouter(route_class=JsonRoute)


@router.post("/threads")
async def create_thread(context: ContextDep, given: ThreadCreate | None = None) -> Object:
    """Create a thread with its first messages."""
    asked = given or ThreadCreate()
    made = await context.write(lambda connection, scope: thread_object(add_thread(connection, scope, asked)))
    if made["tool_resources"]:
        context.server.indexing.wake()
    return made


@router.get("/threads")
async def list_threads(context: ContextDep, page: Wanted) -> Object:
    """List the threads, newest first."""
    return await context.read(lambda connection, scope: list_rows(connection, scope, threads, page, thread_object))


@router.get("/threads/{thread_id}")
async def retrieve_thread(context: ContextDep, thread_id: str) -> Object:
    """Retrieve a thread."""
    return await context.read(lambda connection, scope: thread_object(find_row(connection, scope, threads, thread_id)))


@router.post("/threads/{thread_id}")
async def modify_thread(context: ContextDep, thread_id: str, given: ThreadUpdate) -> Object:
    """Modify a thread: only the fields sent change."""

    def change(connection: Connection, scope: TenantView) -> Object:
        before = find_row(connection, scope, threads, thread_id, lock=True)
        body = with_thread_stores(connection, scope, {**before.body, **_body(given)})
        row = scope.change(connection, threads, thread_id, {"body": body})
        assert row is not None
        return thread_object(row)

    return await context.write(change)


@router.delete("/threads/{thread_id}")
async def delete_thread(context: ContextDep, thread_id: str) -> Object:
    """Delete a thread with its messages and runs; active runs end at once."""

    def remove(connection: Connection, scope: TenantView) -> list[RunRow]:
        find_row(connection, scope, threads, thread_id, lock=True)  # nothing is added to it meanwhile
        there = delete_thread_runs(connection, scope, thread_id)
        scope.remove(connection, threads, threads.c.id == thread_id)
        forget_thread(connection, scope.tenant, thread_id)
        return there

    for run in await context.write(remove):
        context.server.runs.interrupt(run.id)
        gone = run._replace(status="cancelled", holds=False, expires_at=None)
        context.server.runs.followers.publish(run.id, [gone])  # otherwise its subscribers would wait forever
    return deletion_object(thread_id, "thread")


def add_thread(connection: Connection, scope: TenantView, given: ThreadCreate, key: str | None = None) -> Kept:
    """Create a thread with its messages, within the caller's transaction. Return its row."""
    body = with_thread_stores(connection, scope, {"tool_resources": None, "metadata": {}, **_body(given)})
    values: Object = {"id": new_id("thread"), "created_at": int(time.time()), "key": key, "body": body}
    scope.insert(connection, threads, values)
    add_messages(connection, scope, values["id"], given.messages or ())
    return find_row(connection, scope, threads, values["id"])  # messages may have added files


def find_or_add_thread(connection: Connection, scope: TenantView, key: str | None) -> str:
    """Return the id of the thread with this id or key, which must be idle. An unknown key creates a thread, and so does
    `None`. Raises `ApiError`."""
    if key is None:
        return str(add_thread(connection, scope, ThreadCreate()).id)
    if len(key) > 256 or "\0" in key:
        raise ApiError(400, "Invalid 'thread_id': expected at most 256 characters, without NUL.", param="thread_id")
    row = find_thread(connection, scope, key, lock=True)
    if row is None and key.startswith("thread_"):
        raise not_found("thread", key)
    row = row or add_thread(connection, scope, ThreadCreate(), key=key)
    if (active := thread_holder(connection, row.id)) is not None:
        raise ApiError(400, f"Thread {row.id} already has an active run {active.id}.")
    return str(row.id)


def find_thread(connection: Connection, scope: TenantView, key: str, *, lock: bool = False) -> Kept | None:
    """Return the thread with this id or key, or `None`; `lock` as in `TenantView.find`."""
    row = scope.find(connection, threads, key, lock=lock)
    if row is not None or key.startswith("thread_"):
        return row
    own = select(threads).where(threads.c.tenant == scope.tenant, threads.c.key == key)
    return connection.execute(own.with_for_update(key_share=True) if lock else own).first()


def _body(given: ThreadUpdate) -> Object:
    sent = given.sent()
    body: Object = {name: sent[name] for name in ("tool_resources", "metadata") if name in sent}
    return body | ({"metadata": {}} if body.get("metadata", {}) is None else {})
