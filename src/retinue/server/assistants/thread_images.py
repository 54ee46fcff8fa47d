"""Whether the model of a run that is asked for can see the images that the run is about."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import takewhile

from sqlalchemy import Connection, select

from ...store.tables import assistants, messages
from ...store.tenant_view import TenantView
from ..context import Context
from ..image_intake import Place, check_sight
from ..image_parts import images_in
from ..wire.lookup import find_row
from .schemas import MessageCreate, RunCreate, ThreadRunCreate
from .tool_resources import check_images

_LATEST = 10  # messages of a thread that are looked at


async def check_thread_images(
    context: Context, asked: RunCreate | ThreadRunCreate, given: Iterable[MessageCreate], thread_id: str = ""
) -> None:
    """Raise `ApiError` if the model cannot see an image since the last answer, in the messages `given` with the request
    or in those on the thread."""
    given = list(given)
    name = "additional_messages" if isinstance(asked, RunCreate) else "thread.messages"
    sent = [Place(f"{name}[{at}].content", one.role, one.sent()["content"]) for at, one in enumerate(given)]
    places = list(takewhile(lambda place: place.role == "user", reversed(sent)))
    model, there = await context.read(partial(_asked, asked=asked, given=given, thread_id=thread_id))
    agent = context.server.deployment.agents.get(model)
    for place in (*places, *there):
        for number, _ in images_in(place.content):
            if agent is not None:
                await check_sight(agent, f"{place.where}[{number}]")


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
    query = select(messages.c.body).where(messages.c.tenant == scope.tenant, messages.c.thread_id == thread_id)
    newest = connection.execute(query.order_by(messages.c.number.desc()).limit(_LATEST)).scalars() if thread_id else ()
    since = takewhile(lambda body: body["role"] == "user", newest)
    return model, [Place(f"messages[-{at}].content", "user", body["content"]) for at, body in enumerate(since, 1)]
