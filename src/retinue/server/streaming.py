"""A run's progress as the assistants API streams it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from functools import partial

from ..runs import Followed
from ..store.log import read
from ..store.rows import RunRow
from .context import Server
from .objects import Object, run_object
from .progress import Progress
from .sse import frame
from .tailoring import tools_of

_END = "event: done\ndata: [DONE]\n\n"


async def run_events(
    server: Server, run: RunRow, before: Iterable[tuple[str, Object]] = (), *, created: bool = True
) -> AsyncIterator[str]:
    """The events of `run`, which was just created or may go on, until it ends or waits again. `before` comes first."""
    for name, value in before:
        yield frame(value, name)
    if created:
        yield frame(run_object(run), "thread.run.created")
    progress = Progress(run, tools_of(server.deployment, run))
    seen = 0
    if not created:
        for entry in await server.database.read(partial(read, run_id=run.id)):
            list(progress.tell(entry))  # was told before
            seen = entry.seq
        for name, value in progress.answered(run):
            yield frame(value, name)
    for name, value in progress.tell(run):
        yield frame(value, name)
    async with aclosing(server.runs.followers.follow(run.id, seen)) as items:
        async for item in items:
            for name, value in progress.tell(item):
                yield frame(value, name)
            if _rests(item):
                break
    yield _END


def _rests(item: Followed) -> bool:
    return isinstance(item, RunRow) and (item.status == "requires_action" or not item.active)
