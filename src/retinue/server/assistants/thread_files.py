"""Whether the model of a run that is asked for can see the images that the run is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from typing import TypeVar

from sqlalchemy import Connection, Text, bindparam, cast, select

from ...store.prepared_statements import Prepared
from ...store.tables import assistants, messages
from ...store.tenant_view import TenantView
from ..content.file_intake import Place, check_kind
from ..content.file_parts import files_in
from ..context import Context
from ..http.lookup import find_row
from .schemas import MessageCreate, RunCreate, ThreadRunCreate
from .tool_resources import check_images

T = TypeVar("T")
_LATEST = 10  # messages of a thread that are looked at
_NEWEST = (
    select(messages.c.body)
    .where(messages.c.tenant == bindparam("tenant"), messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.number.desc())
    .limit(_LATEST)
)
_TEXT = cast(_NEWEST.subquery().c.body, Text)
_SHOWS = Prepared(select(bindparam("found", 1)).where(_TEXT.contains('"image', autoescape=True)))  # or says so
_NEW = Prepared(_NEWEST)


async def write_if_seen(
    context: Context, work: Callable[[Connection, TenantView], T], asked: RunCreate | ThreadRunCreate, thread_id: str
) -> T:
    """Return what `work` returns once it is committed, as `Context.write` does. It begins the run that is `asked` for.
    Raises `ApiError` if the run's model cannot see an image since the last answer: one in the messages sent with the
    request, or one on the thread."""
    given = _given(asked)
    if not any(True for one in given for _ in files_in(one.sent()["content"])):
        try:
            return await context.write(partial(_unless_shown, work=work, thread_id=thread_id), small=True)
        except _Shown:  # rare, and the model may have to be asked whether it sees: not within a transaction
            pass
    await _check_sight(context, asked, given, thread_id)
    return await context.write(work)


class _Shown(Exception):
    """Nothing was written, since there may be images on the thread."""


def _unless_shown(
    connection: Connection, scope: TenantView, work: Callable[[Connection, TenantView], T], thread_id: str
) -> T:
    if thread_id and _SHOWS.rows(connection, {"tenant": scope.tenant, "thread": thread_id}):
        raise _Shown
    return work(connection, scope)


def _given(asked: RunCreate | ThreadRunCreate) -> list[MessageCreate]:
    """Return the messages that are sent with a request."""
    if isinstance(asked, RunCreate):
        return list(asked.additional_messages or ())
    return list(asked.thread.messages or ()) if asked.thread is not None else []


async def _check_sight(
    context: Context, asked: RunCreate | ThreadRunCreate, given: Iterable[MessageCreate], thread_id: str
) -> None:
    given = list(given)
    name = "additional_messages" if isinstance(asked, RunCreate) else "thread.messages"
    sent = [Place(f"{name}[{at}].content", one.role, one.sent()["content"]) for at, one in enumerate(given)]
    places = list(takewhile(lambda place: place.role == "user", reversed(sent)))
    model, there = await context.read(partial(_asked, asked=asked, given=given, thread_id=thread_id))
    agent = context.server.deployment.agents.get(model)
    for place in (*places, *there):
        for number, _ in files_in(place.content):
            if agent is not None:
                await check_kind(agent, f"{place.where}[{number}]")


def _asked(
    connection: Connection,
    scope: TenantView,
    asked: RunCreate | ThreadRunCreate,
    given: Iterable[MessageCreate],
    thread_id: str,
) -> tuple[str, list[Place]]:
    """Return the model that is asked, and what was said on the thread since the last answer. Raises `ApiError` if a
    file of those `given` does not exist."""
    check_images(connection, scope, given)
    model = asked.model or find_row(connection, scope, assistants, asked.assistant_id).body["model"]
    newest = _NEW.rows(connection, {"tenant": scope.tenant, "thread": thread_id})
    since = takewhile(lambda body: body["role"] == "user", (body for (body,) in newest))
    return model, [Place(f"messages[-{at}].content", "user", body["content"]) for at, body in enumerate(since, 1)]
