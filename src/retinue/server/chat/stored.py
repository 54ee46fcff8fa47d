"""Chat completions that were asked for with `store: true`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Connection

from ...store.log import read
from ...store.rows import RunRow
from ...store.scope import Scope
from ...store.tables import events, runs
from ..context import At
from ..wire.bodies import JsonRoute
from ..wire.errors import ApiError, not_found
from ..wire.finding import Rising
from ..wire.objects import Object, listed
from .completing import completion
from .requests import ChatUpdate

router = APIRouter(prefix="/chat/completions", route_class=JsonRoute)
_METADATA = re.compile(r"metadata\[(.*)\]")


@router.get("")
async def list_all(at: At, request: Request, page: Rising, model: str | None = None) -> Object:
    """The stored completions."""
    wanted = {found[1]: value for name, value in request.query_params.items() if (found := _METADATA.fullmatch(name))}

    def work(connection: Connection, scope: Scope) -> Object:
        stored = runs.c.request["store"].as_boolean().is_(True)
        chat = runs.c.request["kind"].as_string() == "chat"
        kept = (runs.c.thread_id.is_(None), chat, stored, runs.c.status == "completed")
        rows, more = scope.page(connection, runs, page, *kept)
        found = [RunRow.of(row) for row in rows]
        fitting = [run for run in found if model in (None, run.request["model"]) and _has(run, wanted)]
        return listed([_stored(connection, run) for run in fitting], more)

    return await at.read(work)


@router.get("/{completion_id}")
async def retrieve(completion_id: str, at: At) -> Object:
    """A stored completion."""
    return await at.read(lambda connection, scope: _stored(connection, _found(connection, scope, completion_id)))


@router.post("/{completion_id}")
async def update(completion_id: str, body: ChatUpdate, at: At) -> Object:
    """Change what is noted of a stored completion."""

    def work(connection: Connection, scope: Scope) -> Object:
        run = _found(connection, scope, completion_id)
        scope.change(connection, runs, run.id, {"state": {**run.state, "metadata": body.metadata or {}}})
        return _stored(connection, _found(connection, scope, completion_id))

    return await at.write(work)


@router.delete("/{completion_id}")
async def delete(completion_id: str, at: At) -> Object:
    """Forget a stored completion."""

    def work(connection: Connection, scope: Scope) -> None:
        run = _found(connection, scope, completion_id)
        scope.remove(connection, runs, runs.c.id == run.id)
        connection.execute(events.delete().where(events.c.run_id == run.id))

    await at.write(work)
    return {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}


@router.get("/{completion_id}/messages")
async def messages(completion_id: str, at: At, page: Rising) -> Object:
    """What was said in the request of a stored completion."""
    run = await at.read(partial(_found, id_=completion_id))
    said = [
        {"id": f"{completion_id}-{number}", "role": one["role"], "content": one.get("content"), "content_parts": None}
        for number, one in enumerate(run.request.get("messages") or ())
    ]
    if page.order == "desc":
        said.reverse()
    ids = [one["id"] for one in said]
    begin = ids.index(page.after) + 1 if page.after in ids else 0
    return listed(said[begin : begin + page.limit], len(said) > begin + page.limit)


def _found(connection: Connection, scope: Scope, id_: str) -> RunRow:
    name = re.fullmatch(r"chatcmpl-([0-9a-f]{24})(x\d+)?", id_)
    row = scope.find(connection, runs, f"run_{name[1]}") if name else None
    if row is None or row.request.get("kind") != "chat" or not row.request.get("store"):
        raise not_found("chat completion", id_)
    return RunRow.of(row)


def _stored(connection: Connection, run: RunRow) -> Object:
    try:
        answer = completion(run, read(connection, run.id, int(run.state.get("told", 0))))
    except ApiError:
        answer = {"id": run.id, "object": "chat.completion", "choices": []}
    return {**answer, "metadata": run.state.get("metadata") or {}}


def _has(run: RunRow, wanted: dict[str, str]) -> bool:
    metadata: dict[str, Any] = run.state.get("metadata") or {}
    return all(metadata.get(name) == value for name, value in wanted.items())
