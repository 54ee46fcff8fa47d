"""Responses, and the items in them, by their ids."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ...core.events import Paused
from ...runs import Followed
from ...store.event_log import Entry, read_events
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.deployment import Deployment
from ..agents.overrides import tools_of
from ..content.message_files import prepare_files
from ..context import Context
from ..conversations.items import append_items, items_of, kept_item
from ..conversations.views import PREFIXES
from ..http.api_errors import ApiError
from ..http.objects import Object, call_id, run_of_call
from .response_parts import Part, item_named, named, part_of
from .response_projection import ResponseProjection

_REFERENCES = 100  # of a request, to items: each may be another log's


def found_response(connection: Connection, scope: TenantView, id_: str, *, lock: bool = False) -> Part:
    """Return the response of this id; `lock` locks its run until the transaction ends. Raises `ApiError` (404)."""
    part = _stored(connection, scope, named(id_), lock=lock)
    if part is None:
        raise ApiError(404, f"Response with id '{id_}' not found.")
    return part


def previous_part(connection: Connection, scope: TenantView, id_: str | None, own: Collection[str] = ()) -> Part | None:
    """The response that a request goes on from, if it does; those of `own` need not be stored.
    Raises `ApiError` (400)."""
    if id_ is None:
        return None
    part = _kept(connection, scope, named(id_))
    if part is None or part.deleted or not (part.stored or id_ in own):
        message = f"Previous response with id '{id_}' not found."
        raise ApiError(400, message, param="previous_response_id", code="previous_response_not_found")
    return part


def _stored(
    connection: Connection, scope: TenantView, name: tuple[str, int] | None, *, lock: bool = False
) -> Part | None:
    part = _kept(connection, scope, name, lock=lock)
    return part if part is not None and part.stored else None


def _kept(
    connection: Connection, scope: TenantView, name: tuple[str, int] | None, *, lock: bool = False
) -> Part | None:
    return None if name is None else part_of(find_own_run(connection, scope, name[0], lock=lock), name[1])


def current_response(
    connection: Connection, deployment: Deployment, part: Part, include: Collection[str] = ()
) -> ResponseProjection:
    """All that a response has come to by now; `include`: what is to be shown of its items beside what was asked for."""
    return response_from_log(deployment, part, read_events(connection, part.run.id), include)


def response_from_log(
    deployment: Deployment, part: Part, log: Sequence[Entry], include: Collection[str] = ()
) -> ResponseProjection:
    """What a response came to by this log."""
    progress = ResponseProjection(part, tools_of(deployment, part.run), include)
    items: list[Followed] = [*log, part.run]
    for item in items:
        list(progress.events(item))
    return progress


def responses_from_log(
    deployment: Deployment, run: RunRow, log: Sequence[Entry], last: int
) -> Iterator[ResponseProjection]:
    """Yield what the responses of a run, up to the one numbered `last`, came to by this log. An entry is read once."""
    tools, left = tools_of(deployment, run), deque(log)
    progress: ResponseProjection | None = None
    for number in range(last + 1):
        progress = ResponseProjection(Part(run, number), tools, before=progress)
        end = run.submissions[number].told if number < len(run.submissions) else math.inf
        while left and left[0].seq <= end:
            list(progress.events(left.popleft()))
        list(progress.events(run))
        yield progress


async def found_items(
    context: Context, items: Sequence[Mapping[str, Any]], conversation_id: str | None = None
) -> Mapping[str, Object]:
    """Return the items that `items` refer to, by id, as far as they exist.

    They are read before the transaction that needs them, one response at a time, so that nobody waits for all of them;
    and so are the files that these items and the conversation's name. Raises `ApiError` for too many references.
    """
    wanted = [item["id"] for item in items if item["type"] == "item_reference"]
    if len(wanted) > _REFERENCES:
        raise ApiError(400, f"Invalid 'input': at most {_REFERENCES} items may be references.", param="input")
    names = {id_: item_named(id_) or await context.read(partial(_asking, id_=id_)) for id_ in dict.fromkeys(wanted)}
    found: dict[str, Object] = {}
    for name in dict.fromkeys(filter(None, names.values())):
        work = partial(_items, deployment=context.server.deployment, name=name)
        there = {item["id"]: item for item in await context.read(work)}
        found |= {id_: there[id_] for id_ in names if id_ in there}
    for id_ in names.keys() - found.keys():
        if (item := await context.read(partial(_kept_item, id_=id_))) is not None:
            found[id_] = item
    await prepare_files(context, _spoken((*items, *found.values())))
    if conversation_id is not None:
        with suppress(ApiError):  # raised where the conversation is needed
            await prepare_files(context, _spoken(await context.read(partial(_conversation, id_=conversation_id))))
    return found


def _spoken(items: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [item.get("content") or item.get("output") for item in items]


def _conversation(connection: Connection, scope: TenantView, id_: str) -> list[Object]:
    return items_of(connection, scope, id_)


def _items(connection: Connection, scope: TenantView, deployment: Deployment, name: tuple[str, int]) -> list[Object]:
    part = _stored(connection, scope, name)
    return [] if part is None else [*part.input, *current_response(connection, deployment, part).output]


def _kept_item(connection: Connection, scope: TenantView, id_: str) -> Object | None:
    return kept_item(connection, scope.tenant, id_)


def resolve_references(items: Sequence[Mapping[str, Any]], found: Mapping[str, Object]) -> list[Object]:
    """`items`, with those that others refer to in their places. Raises `ApiError` (404) for one that was not found."""
    return [_item(item["id"], found) if item["type"] == "item_reference" else dict(item) for item in items]


def _item(id_: str, found: Mapping[str, Object]) -> Object:
    if id_ not in found:
        raise ApiError(404, f"Item with id '{id_}' not found.", param="input")
    return {key: value for key, value in found[id_].items() if key != "id"}


def _asking(connection: Connection, scope: TenantView, id_: str) -> tuple[str, int] | None:
    """The run and the number of the response that asked for the approval of this id, which is named after its call."""
    kind, _, rest = id_.partition("_")
    wanted = f"call_{rest}"
    run_id = run_of_call(wanted) if kind == PREFIXES["mcp_approval_request"] else None
    run = None if run_id is None else find_own_run(connection, scope, run_id)
    if run is None:
        return None
    asked = Counter[str]()
    for entry in read_events(connection, run.id):
        if isinstance(entry.event, Paused):
            call = entry.event.action.id
            asked[call] += 1
            if call_id(run.id, call, asked[call]) == wanted:
                begun = [number for number in range(len(run.submissions) + 1) if Part(run, number).begin < entry.seq]
                return run.id, begun[-1]
    return None


def concluding(deployment: Deployment) -> Callable[[Connection, RunRow, Sequence[Entry]], None]:
    """What `Runs` has to write where a response's run ends or waits: its items belong to its conversation from then
    on."""

    def conclude(connection: Connection, run: RunRow, log: Sequence[Entry]) -> None:
        part = part_of(run, len(run.submissions))
        if part is None or run.thread_id is None:
            return
        progress = response_from_log(deployment, part, log)
        if progress.last is not None and progress.last["status"] in ("completed", "incomplete"):
            append_items(connection, run.tenant, run.thread_id, [*part.input, *progress.output], run.id)

    return conclude
