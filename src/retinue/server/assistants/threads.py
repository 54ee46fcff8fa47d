"""`/threads` and `/threads/{id}/messages`: conversations. Listing them with `GET /threads` is an extension."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import Connection

from ...store.memory_states import forget_thread
from ...store.run_queries import delete_thread_runs, thread_holder
from ...store.run_row import RunRow
from ...store.tables import messages, threads
from ...store.tenant_view import Kept, TenantView
from ..content.threads import add_messages, add_thread, change_thread
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.common_schemas import MetadataUpdate
from ..http.objects import Object, Wanted, deletion_object, find_row, list_rows, message_object, thread_object
from ..http.request_body import JsonRoute
from .schemas import MessageCreate, ThreadCreate, ThreadUpdate

router = APIRouter(route_class=JsonRoute)


@router.post("/threads")
async def create_thread(context: ContextDep, given: ThreadCreate | None = None) -> Object:
    """Create a thread with its first messages."""
    asked = (given or ThreadCreate()).sent()
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
    return await context.write(
        lambda connection, scope: thread_object(change_thread(connection, scope, thread_id, given.sent()))
    )


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


@router.post("/threads/{thread_id}/messages")
async def create_message(context: ContextDep, thread_id: str, given: MessageCreate) -> Object:
    """Create a message, unless a run is active on the thread."""

    def add(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, threads, thread_id, lock=True)
        if (run := thread_holder(connection, thread_id)) is not None:
            raise ApiError(400, f"Can't add messages to {thread_id} while a run {run.id} is active.")
        return message_object(add_messages(connection, scope, thread_id, [given.sent()])[0])

    made = await context.write(add)
    if given.attachments:
        context.server.indexing.wake()
    return made


@router.get("/threads/{thread_id}/messages")
async def list_messages(context: ContextDep, thread_id: str, page: Wanted, run_id: str | None = None) -> Object:
    """List a thread's messages, newest first. `run_id` selects those created by a run."""

    def read(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, threads, thread_id)
        where = [messages.c.thread_id == thread_id, *([] if run_id is None else [messages.c.run_id == run_id])]
        return list_rows(connection, scope, messages, page, message_object, *where)

    return await context.read(read)


@router.get("/threads/{thread_id}/messages/{message_id}")
async def retrieve_message(context: ContextDep, thread_id: str, message_id: str) -> Object:
    """Retrieve a message."""
    return await context.read(
        lambda connection, scope: message_object(_message(connection, scope, thread_id, message_id)),
    )


@router.post("/threads/{thread_id}/messages/{message_id}")
async def modify_message(context: ContextDep, thread_id: str, message_id: str, given: MetadataUpdate) -> Object:
    """Replace a message's metadata."""

    def change(connection: Connection, scope: TenantView) -> Object:
        row = _message(connection, scope, thread_id, message_id, lock=True)
        if "metadata" in given.model_fields_set:
            body = {**row.body, "metadata": given.metadata or {}}
            row = scope.change(connection, messages, message_id, {"body": body}) or row
        return message_object(row)

    return await context.write(change)


@router.delete("/threads/{thread_id}/messages/{message_id}")
async def delete_message(context: ContextDep, thread_id: str, message_id: str) -> Object:
    """Delete a message."""

    def remove(connection: Connection, scope: TenantView) -> Object:
        _message(connection, scope, thread_id, message_id)
        scope.remove(connection, messages, messages.c.id == message_id)
        return deletion_object(message_id, "thread.message")

    return await context.write(remove)


def _message(connection: Connection, scope: TenantView, thread_id: str, message_id: str, *, lock: bool = False) -> Kept:
    find_row(connection, scope, threads, thread_id)
    row = find_row(connection, scope, messages, message_id, lock=lock)
    if row.thread_id != thread_id:
        raise not_found("message", message_id)
    return row
