"""The resources of hosted tools: `tool_resources` of assistants and threads, attachments of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection

from ...store.run_row import RunRow
from ...store.tables import files, threads
from ...store.tenant_view import TenantView
from ..files.routes import file_of
from ..files.schemas import Expiry, FileWish, StoreCreate
from ..files.stores import attach, make_store, store_of
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.scopes import allowed, missing as missing_scope
from ..http.validation import first_error, missing_parameter
from .schemas import Attachment, ImageFilePart, MessageCreate

_OF_THREAD = Expiry(anchor="last_active_at", days=7)  # as at OpenAI, since nobody deletes such a store


class Resources(NamedTuple):
    """The ids of the vector stores and files available to a run's hosted tools."""

    stores: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def with_stores(connection: Connection, scope: TenantView, body: Object, expires: Expiry | None = None) -> Object:
    """Return the `body` of an assistant or thread with the vector stores created that it asks for. Raises
    `ApiError`."""
    resources = body.get("tool_resources") or {}
    wishes = (resources.get("file_search") or {}).get("vector_stores")
    if wishes is None:
        return body
    if wishes and not allowed(scope.scopes, "agents"):  # as for POST /vector_stores
        raise missing_scope("agents")
    ids = list(resources["file_search"].get("vector_store_ids") or ())
    for number, wish in enumerate(wishes):
        given = _helper(wish, number).model_copy(update={"expires_after": expires})
        ids.append(make_store(connection, scope, given).id)
    return {**body, "tool_resources": {**resources, "file_search": {"vector_store_ids": ids}}}


def with_thread_stores(connection: Connection, scope: TenantView, body: Object) -> Object:
    """As `with_stores`, for a thread, whose stores expire."""
    return with_stores(connection, scope, body, _OF_THREAD)


def _helper(wish: Any, number: int) -> StoreCreate:
    try:
        return StoreCreate.model_validate(wish)
    except ValidationError as error:
        where = ("body", "tool_resources", "file_search", "vector_stores", number)
        raise first_error([{**one, "loc": (*where, *one["loc"])} for one in error.errors(include_url=False)]) from error


def bring_files(messages: Iterable[MessageCreate]) -> bool:
    """Whether any message has attachments."""
    return any(one.attachments for one in messages)


def check_images(connection: Connection, scope: TenantView, given: Iterable[MessageCreate]) -> None:
    """Raise `ApiError` if a message refers to an image file that does not exist."""
    parts = [part for one in given if not isinstance(one.content, str) for part in one.content]
    for part in parts:
        if isinstance(part, ImageFilePart) and scope.find(connection, files, part.image_file.file_id) is None:
            message = f"No such File object: {part.image_file.file_id}"
            raise ApiError(400, message, param="content.image_file.file_id")


def attach_to_thread(
    connection: Connection, scope: TenantView, thread_id: str, messages: Sequence[MessageCreate]
) -> None:
    """Make the attachments of new messages available to the thread's hosted tools. Raises `ApiError`."""
    given = [one for message in messages for one in message.attachments or ()]
    searched, run = _files(given, "file_search"), _files(given, "code_interpreter")
    thread = scope.find(connection, threads, thread_id, lock=True) if searched or run else None
    if thread is None:
        return
    resources: Object = dict(thread.body["tool_resources"] or {})
    if searched:
        ids = (resources.get("file_search") or {}).get("vector_store_ids")
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
        before = (resources.get("code_interpreter") or {}).get("file_ids") or ()
        resources["code_interpreter"] = {"file_ids": list(dict.fromkeys([*before, *run]))}
    scope.change(connection, threads, thread_id, {"body": {**thread.body, "tool_resources": resources}})


def check_attachments(
    connection: Connection, scope: TenantView, thread_id: str, messages: Sequence[MessageCreate]
) -> None:
    """Check that `attach_to_thread` would succeed now, and roll back. Raises `ApiError` if not."""
    if not bring_files(messages):
        return
    trial = connection.begin_nested()
    try:
        attach_to_thread(connection, scope, thread_id, messages)
    finally:
        trial.rollback()


def _files(attachments: Iterable[Attachment], tool: str) -> list[str]:
    wanted = [one for one in attachments if any(each.type == tool for each in one.tools or ())]
    if any(one.file_id is None for one in wanted):
        raise missing_parameter("attachments[0].file_id")
    return list(dict.fromkeys(one.file_id for one in wanted if one.file_id is not None))


def resources_of(connection: Connection, run: RunRow) -> Resources:
    """Return the resources of a run's hosted tools: its assistant's, and those of its thread at this time."""
    thread = TenantView(run.tenant).find(connection, threads, run.thread_id) if run.thread_id else None
    all_ = [run.request.get("tool_resources"), thread.body["tool_resources"] if thread is not None else None]
    stores = (_ids(one, "file_search", "vector_store_ids") for one in all_)
    files = (_ids(one, "code_interpreter", "file_ids") for one in all_)
    return Resources(*(tuple(dict.fromkeys(one for some in ids for one in some)) for ids in (stores, files)))


def _ids(resources: Mapping[str, Any] | None, tool: str, name: str) -> Sequence[str]:
    return ((resources or {}).get(tool) or {}).get(name) or ()
