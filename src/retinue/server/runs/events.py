"""`/runs/{id}/events`: the log of a run, in pages or live. This route is an extension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from sqlalchemy import Connection

from ...errors import RetinueError
from ...runs import Followed
from ...runs.run_view import read_run_after, turn_of
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.authentication import sees_prompts
from ..http.objects import listed, own_run
from ..http.request_body import JsonRoute
from ..http.sse import DONE, RETRY, STREAMED, event_stream, frame
from ..run_session import Projection, RunSession
from .list import event_object, hidden_turns, summary_object

router = APIRouter(prefix="/runs", route_class=JsonRoute)
_Number = Annotated[int, Query(ge=0, lt=2**31)]


@router.get("/{run_id}/events", responses=STREAMED)
async def events(
    run_id: str,
    context: ContextDep,
    after: _Number = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
    stream: bool = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Any:
    """List the events of a run's log after number `after`, oldest first; or stream them as they are committed."""
    prompts = sees_prompts(context.scope.scopes)
    if stream:
        context.begin_stream()
        run = await context.read(lambda connection, scope: own_run(connection, scope, run_id), small=True)
        since = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 10 else after
        return event_stream(RunSession(context.server, run).follow(LogStream(run, since, prompts=prompts)))

    def work(connection: Connection, scope: TenantView) -> Any:
        found = read_run_after(connection, scope, run_id, after, limit)
        if found is None:
            raise not_found("run", run_id)
        view, more = found
        hidden = hidden_turns(view.run)
        shown = [event_object(entry, hidden=view.turn(entry) in hidden, prompts=prompts) for entry in view.log]
        return listed(shown, more)

    return await context.read(work)


class LogStream(Projection):
    """A run's log as an event stream: first and whenever its status changes the run (`run`), and each event (`event`),
    by whose number a client resumes."""

    tail = DONE

    def __init__(self, run: RunRow, since: int, *, prompts: bool) -> None:
        super().__init__(run)
        self.since = since
        self.head = RETRY + frame(summary_object(run), "run")
        self._prompts = prompts

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frame of an entry, or of the run's new row."""
        if isinstance(item, RunRow):
            self.run = item
            self.last = None if item.active else item
            yield frame(summary_object(item), "run")
        else:
            hidden = turn_of(self.run, item) in hidden_turns(self.run)
            yield frame(event_object(item, hidden=hidden, prompts=self._prompts), "event", item.seq)

    def needs_run(self, item: Followed) -> bool:
        """Whether the row may not say yet how the run resumed, which decides what of an entry is shown."""
        return isinstance(item, Entry) and self.run.rests

    def error_frame(self, error: RetinueError | ApiError) -> str:
        """Return the frame of an error that ends the stream."""
        if isinstance(error, ApiError):
            return frame(error.body, "error")
        raise error
