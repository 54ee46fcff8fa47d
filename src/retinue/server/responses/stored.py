"""Responses, and the items in them, by their ids."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ...store.event_log import Entry, read_events
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.deployment import Deployment
from ..agents.overrides import tools_of
from ..content.message_files import prepare_files
from ..context import Context
from ..conversations.items import PREFIXES, append_items, find_anywhere, items_of
from ..http.api_errors import ApiError
from ..http.objects import Object, run_of_call
from .input import as_items
from .projection import ResponseProjection
from .response import Part, part_of, read_item_id, read_response_id

_REFERENCES = 100  # of a request, to items: each may be another log's


def find_response(connection: Connection, scope: TenantView, id_: str, *, lock: bool = False) -> Part:
    """Return the response of this id; `lock` locks its run until the transaction ends. Raises `ApiError` (404)."""
    part = _find_part(connection, scope, read_response_id(id_), lock=lock)
    if part is None or not part.stored:
        raise ApiError(404, f"Response with id '{id_}' not found.")
    return part


def find_previous(connection: Connection, scope: TenantView, id_: str | None, own: Collection[str] = ()) -> Part | None:
    """Return the response that a request goes on from, if it does; those of `own` need not be stored. Raises `ApiError`
    (400)."""
    if id_ is None:
        return None
    part = _find_part(connection, scope, read_response_id(id_))
    if part is None or part.deleted or not (part.stored or id_ in own):
        message = f"Previous response with id '{id_}' not found."
        raise ApiError(400, message, param="previous_response_id", code="previous_response_not_found")
    return part


def _find_part(
    connection: Connection, scope: TenantView, name: tuple[str, int] | None, *, lock: bool = False
) -> Part | None:
    return None if name is None else part_of(find_own_run(connection, scope, name[0], lock=lock), name[1])


# ── what a response has come to ──────────────────────────────────────────────────────────────────


def current_response(
    connection: Connection, deployment: Deployment, part: Part, include: Collection[str] = ()
) -> ResponseProjection:
    """Return all that a response has come to by now; `include`: what is to be shown of its items beside what was asked
    for."""
    *_, progress = project_responses(deployment, part, read_events(connection, part.run.id), include)
    return progress


def project_responses(
    deployment: Deployment, last: Part, log: Sequence[Entry], include: Collection[str] = ()
) -> Iterator[ResponseProjection]:
    """Yield what the responses of a run, up to `last`, came to by this log. An entry is read once."""
    run, left = last.run, deque(log)
    tools = tools_of(deployment, run)
    progress: ResponseProjection | None = None
    for number in range(last.number + 1):
        progress = ResponseProjection(Part(run, number), tools, include, progress)
        end = run.submissions[number].told if number < len(run.submissions) else math.inf
        while left and left[0].seq <= end:
            list(progress.events(left.popleft()))
        list(progress.events(run))
        yield progress


def concluding(deployment: Deployment) -> Callable[[Connection, RunRow, Sequence[Entry]], None]:
    """Return what `Runs` has to write where a response's run ends or waits: its items belong to its conversation from
    then on."""

    def conclude(connection: Connection, run: RunRow, log: Sequence[Entry]) -> None:
        part = part_of(run, len(run.submissions))
        if part is None or run.thread_id is None:
            return
        *_, progress = project_responses(deployment, part, log)
        if progress.last is not None and progress.last["status"] in ("completed", "incomplete"):
            append_items(connection, TenantView(run.tenant), run.thread_id, [*part.input, *progress.output], run.id)

    return conclude


# ── the items of a request ───────────────────────────────────────────────────────────────────────


async def read_input(context: Context, given: Any, conversation_id: str | None = None) -> list[Object]:
    """Return the input `given` as items in stored form, with those that it refers to in their places.

    They are read before the transaction that needs them, one response at a time, so that nobody waits for all of them;
    and so are the files that these items and the conversation's name. Raises `ApiError` for too many references (400),
    and for an item that does not exist (404).
    """
    items = as_items(given)
    wanted = [item["id"] for item in items if item["type"] == "item_reference"]
    if len(wanted) > _REFERENCES:
        raise ApiError(400, f"Invalid 'input': at most {_REFERENCES} items may be references.", param="input")
    found: dict[str, Object] = {}
    for run_id in dict.fromkeys(filter(None, map(_run_of, wanted))):
        found |= await context.read(partial(_read_items, deployment=context.server.deployment, run_id=run_id))
    for id_ in set(wanted) - found.keys():
        if (item := await context.read(partial(find_anywhere, item_id=id_))) is None:
            raise ApiError(404, f"Item with id '{id_}' not found.", param="input")
        found[id_] = item
    for at, item in enumerate(items):
        if item["type"] == "item_reference":
            items[at] = {key: value for key, value in found[item["id"]].items() if key != "id"}
    await prepare_files(context, _contents(items))
    if conversation_id is not None:
        with suppress(ApiError):  # raised where the conversation is needed
            kept = await context.read(partial(items_of, conversation_id=conversation_id))
            await prepare_files(context, _contents(kept))
    return items


def _contents(items: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [item.get("content") or item.get("output") for item in items]


def _run_of(id_: str) -> str | None:
    """Return the run that an item id names; a request for approval is named after its call."""
    kind, _, rest = id_.partition("_")
    return run_of_call(f"call_{rest}") if kind == PREFIXES["mcp_approval_request"] else read_item_id(id_)


def _read_items(connection: Connection, scope: TenantView, deployment: Deployment, run_id: str) -> dict[str, Object]:
    """Return the items of a run's stored responses, by their ids."""
    run = find_own_run(connection, scope, run_id)
    last = part_of(run, len(run.submissions)) if run is not None else None
    if last is None:
        return {}
    there = project_responses(deployment, last, read_events(connection, run_id))
    return {item["id"]: item for one in there if one.part.stored for item in (*one.part.input, *one.output)}
