"""A client's session with a run, in every API alike: a request begins the run, or lets it go on; the client follows it
or waits for it; people decide on its calls, and cancel it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from fastapi import Request
from sqlalchemy import Connection

from ..core.events import Called
from ..core.run_context import STORED_ID
from ..errors import DataError, RetinueError, StoreConflict, StoreUnavailable
from ..runs import Followed
from ..runs.cancellation import cancel_run
from ..runs.status import take_step
from ..runs.submissions import FurtherRequest, submit_decisions
from ..runs.teams import decided_members
from ..store.audit_log import Action, Author, record
from ..store.clock import CLOCK
from ..store.engines import COUNTING, lock_until_end
from ..store.event_log import read_events
from ..store.run_belongings import is_beside, put_messages, shorten_request, show_files
from ..store.run_queries import count_of_key, find_run, insert_run, thread_holder
from ..store.run_row import Kind, RunRow
from ..store.tenant_view import TenantView
from ..store.usage_sums import count_run
from .agents.overrides import HOSTED, tools_of
from .content.threads import add_messages
from .content.tool_outputs import parse_submission, submission_digest
from .context import Context, Options, Server
from .http.api_errors import ApiError, run_failed_error
from .http.limits import check_run, too_many
from .http.objects import new_id
from .http.sse import event_stream, frame, wait_for_disconnect

FAILED = ("failed", "cancelled", "expired")


class Projection:
    """Folds a run's log into what a client is told of it. This one tells nothing, until the run rests.

    An API's subclass says in `events` what follows from a log entry or from the run's new row, and in `frames` what
    that is in an event stream. `head` and `tail` are the stream's first and last frames, `since` the number of the last
    entry that was told before. `last` is what the client is told last; `None` while there is more to tell.
    """

    head = ""
    tail = ""
    since = 0
    last: Any = None

    def __init__(self, run: RunRow) -> None:
        self.run = run

    def events(self, item: Followed) -> Iterable[Any]:
        """Return what follows from a log entry, or from the run's new row."""
        if isinstance(item, RunRow) and item.rests:
            self.last = item
        return ()

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of what follows."""
        return map(frame, self.events(item))

    async def last_frames(self) -> AsyncIterator[str]:
        """Yield the stream's last frames, once everything was told."""
        if self.tail:
            yield self.tail

    def needs_run(self, item: Followed) -> bool:
        """Whether the run's current row must be supplied (`bind_run`) before this entry is folded."""
        return False

    def bind_run(self, run: RunRow) -> None:
        """Record the run's current row."""
        self.run = run

    def error_frame(self, error: RetinueError | ApiError) -> str:
        """Return the frame that reports `error`, with which the stream ends; or raise it, to break the connection."""
        raise error


@dataclass(frozen=True, slots=True)
class RunSession:
    """A client's session with a run, whose row is `run` as the session begins. If the run does not go on without its
    client (`lasting`), it is cancelled when the client disconnects before it was told everything."""

    server: Server
    run: RunRow
    lasting: bool = True

    def begin(self, *, new: bool = True, halted: RunRow | None = None) -> None:
        """Drive the run if it is `new` (or was given something new) and need not wait for its thread. `halted` is the
        run that was cancelled for it."""
        self.server.halted(halted)
        if new and self.run.holds:
            for run_id in decided_members(self.run):
                self.server.runs.dispatch(run_id)
            self.server.runs.dispatch(self.run.id, self.run)

    async def follow(self, projection: Projection) -> AsyncGenerator[str, None]:
        """Yield the frames of the run's event stream, live, until everything was told."""
        items = self.server.runs.followers.follow(self.run.id, projection.since, run=self.run)
        try:
            if projection.head:
                yield projection.head
            async for item in items:
                if projection.needs_run(item):
                    now = await self.server.database.read(partial(find_run, run_id=self.run.id), small=True)
                    projection.bind_run(now or projection.run)
                for text in projection.frames(item):
                    yield text
                if projection.last is not None:
                    break
                if isinstance(item, RunRow) and item.suspended:
                    raise run_failed_error(item)
        except (RetinueError, ApiError) as error:
            yield projection.error_frame(error)
            return
        finally:
            await items.aclose()
            self._leave(projection)
        async for text in projection.last_frames():
            yield text

    async def wait(self, projection: Projection, request: Request) -> RunRow:
        """Return the run's row once everything was told, or the run is suspended. The client of `request` may
        disconnect meanwhile."""
        request.state.run = self.run.id  # which error responses name
        watch = asyncio.create_task(wait_for_disconnect(request))
        following = asyncio.create_task(self.rest(projection))
        try:
            await asyncio.wait([watch, following], return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                self._leave(projection)
            return await following
        finally:
            for task in (watch, following):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def rest(self, projection: Projection) -> RunRow:
        """Return the run's row once everything was told, without deltas of the model's replies."""
        run = self.run
        items = self.server.runs.followers.follow(run.id, projection.since, listens=False, run=run)
        async with aclosing(items):
            async for item in items:
                for _ in projection.events(item):
                    pass
                run = item if isinstance(item, RunRow) else run
                if projection.last is not None or run.suspended:
                    break
        return run

    def _leave(self, projection: Projection) -> None:
        """Cancel the run, if its client leaves before everything was told, and it does not go on without it."""
        if projection.last is not None or self.lasting or self.server.runs.stopping:
            return
        if not self.server.runs.interrupt(self.run.id):
            self.server.runs.beside("cancelling a run that its client left", self._cancel)

    async def _cancel(self) -> None:
        """Cancel the run where this process does not drive it: its members have it, or another server."""

        def work(connection: Connection) -> RunRow | None:
            run = find_run(connection, self.run.id, lock=True)
            return cancel_run(connection, run) if run is not None and run.active else None

        with suppress(StoreUnavailable, StoreConflict):
            self.server.halted(await self.server.database.write(work))


# ── from a request to a run, and from the run to an answer ───────────────────────────────────────────────────────────


class Begun(NamedTuple):
    """What a request began: the run, whether it must be driven (it is new, or was given something new), the run that
    was cancelled for it, and what else the answer needs, as JSON."""

    run: RunRow
    new: bool = True
    halted: RunRow | None = None
    more: Any = None


class RunApi(ABC):
    """A request that a run answers. An API's subclass says how it becomes a run, and the run an answer.

    Args:
        context: The request's context.
        request: The request, whose client may disconnect.
    """

    streams = False
    """Whether the client wants an event stream."""
    lasting = True
    """Whether the run goes on if its client disconnects."""

    def __init__(self, context: Context, request: Request) -> None:
        self.context = context
        self.request = request

    async def prepare(self) -> None:  # noqa: B027 -- most have nothing to load
        """Check the request, and load what it needs: all that takes time, before the transaction."""

    @abstractmethod
    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Add the run, or let the one that waits for this request go on. Raises `ApiError`."""

    @abstractmethod
    def projection(self, begun: Begun) -> Projection:
        """Return what the client is streamed."""

    @abstractmethod
    async def answer(self, session: RunSession, begun: Begun) -> Any:
        """Return the answer that is no stream, which may wait for the run."""

    async def write(self) -> Begun:
        """Return what `begin` returns once that is committed: of a repeated request, what the first one got."""

        def work(connection: Connection, scope: TenantView) -> tuple[Any, ...]:
            return tuple(self.begin(connection, scope))

        return Begun(*await self.context.write(work))

    async def open(self) -> tuple[RunSession, Begun]:
        """Begin the run."""
        await self.prepare()
        begun = await self.write()
        session = RunSession(self.context.server, begun.run, self.lasting)
        session.begin(new=begun.new, halted=begun.halted)
        return session, begun

    async def respond(self) -> Any:
        """Begin the run, and return its event stream or its answer."""
        session, begun = await self.open()
        if self.streams:
            return event_stream(session.follow(self.projection(begun)))
        return await self.answer(session, begun)


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────────


class NewRun(NamedTuple):
    """A run to be added: the API that requests it, its stored request, its thread or conversation, and its metadata."""

    kind: Kind
    request: Mapping[str, Any]
    thread_id: str | None = None
    metadata: Mapping[str, str] | None = None


def add_run(connection: Connection, scope: TenantView, new: NewRun, ttl: int | None) -> RunRow:
    """Insert a run, `queued`, that must end within `ttl` seconds. `None` means that it waits for its thread, and its
    time starts then. Raises `ApiError` (429) if the API key's queue is full, or the tenant's quota is used up."""
    check_room(connection, scope)
    now, request = int(CLOCK.now()), dict(new.request)
    if scope.incoming is not None:
        if problem := scope.incoming.describe_refusal(request["model"]):
            raise ApiError(400, problem, code="call_circle", headers={"x-should-retry": "false"})
        request["callers"] = list(map(str, scope.incoming.callers))
    request |= scope.trace
    if scope.author.request_id:
        request[STORED_ID] = scope.author.request_id
    run = RunRow(
        id=new_id("run"),
        tenant=scope.tenant,
        thread_id=new.thread_id,
        created_at=now,
        status="queued",
        holds=ttl is not None,
        expires_at=None if ttl is None else now + ttl,
        epoch=0,
        request=request,
        key_id=scope.key_id,
        kind=new.kind,
        agent=request["model"],
        metadata=new.metadata or {},
        stored=bool(request.get("store")),
        user=scope.user,
    )
    turns = (*(request.get("messages") or ()), *(request.get("since") or ()))
    row = run._replace(request=shorten_request(run.request))
    insert_run(connection, row)
    if is_beside(row):
        put_messages(connection, row, run.request["messages"])
    if shown := [image["id"] for turn in turns for image in turn.get("images", ())]:
        show_files(connection, scope.tenant, run.id, shown)
    count_run(connection, scope.tenant, now, scope.process, run.user)
    return run


def check_room(connection: Connection, scope: TenantView) -> None:
    """Raise `ApiError` (429) if the tenant's quota or the API key's tokens are used up, or its queue is full. Every
    transaction that inserts a run calls it, whatever the request: `Limits` only refuses most of them earlier."""
    if scope.check_begin is not None:
        scope.check_begin()
    check_run(connection, scope)
    if scope.room is not None:
        lock_until_end(connection, COUNTING)
        if count_of_key(connection, scope.key_id) >= scope.room:
            raise too_many("runs", scope.room)


def admit_waiting_run(connection: Connection, run_id: str, options: Options) -> bool:
    """Let a waiting run have its thread. Return whether it was still waiting. Raises `ApiError` if its messages can no
    longer be added; an unreadable row may raise any exception."""
    run = find_run(connection, run_id, lock=True)
    if run is None or run.status != "queued" or run.thread_id is None or thread_holder(connection, run.thread_id):
        return False
    take_step(connection, run, "admit", expires_at=int(CLOCK.now()) + options.run_ttl)
    add_messages(connection, TenantView(run.tenant), run.thread_id, run.request.get("additional_messages") or ())
    return True


def answer_calls(  # noqa: PLR0913 -- two of them are only for some APIs
    connection: Connection,
    author: Author,
    run: RunRow,
    outputs: Sequence[tuple[str, str]],
    ttl: int,
    *,
    files: Mapping[str, Sequence[Mapping[str, Any]]] = {},
    further: FurtherRequest | None = None,
) -> tuple[RunRow, bool]:
    """Answer the calls that a run waits for, or decide on them. Return its row, and whether this is new: repeating it
    has no effect. Decisions of people are recorded; the outputs of a client's own functions are not decisions. Raises
    `ApiError`, and `StoreConflict` as `submit_decisions` does.

    Args:
        connection: A connection in a transaction.
        author: Who answers.
        run: The run, as it was read in this transaction.
        outputs: The answers, by the client's ids of the calls.
        ttl: Seconds that the run then has to finish.
        files: Files of the outputs that the model is shown, by the client's ids of the calls.
        further: The request, if the run answers it with a response of its own.
    """
    answer = parse_submission(run, outputs, files)
    if answer is None:
        return run, False
    for call, decision in answer.decisions.items():
        if call not in answer.outputs:
            tool = next((one["tool"] for one in run.waiting if one["id"] == call), "")
            action = cast(Action, f"call.{decision.kind}")
            record(connection, author, run.tenant, action, run.id, {"call": call, "tool": tool[:64]})
    return submit_decisions(connection, run, answer.decisions, ttl, answer.mark, further), True


def answer_as_client(
    connection: Connection, author: Author, run: RunRow, outputs: Sequence[tuple[str, str]], ttl: int
) -> tuple[RunRow, bool]:
    """Answer the calls of a run of any API, as `answer_calls` does, on behalf of a person who looks at it: with the
    request that the run's client would have made, where its API shows one for each time that a run resumes."""
    calls, further = [call for call, _ in outputs], None
    if run.kind == "response":
        given: Any = run.submissions[-1].asked if run.submissions else run.request["asked"]
        items = [{"type": "function_call_output", "call_id": call, "output": said} for call, said in outputs]
        further = FurtherRequest(given, items, None, calls)
    elif run.kind == "a2a":
        parts = [{"text": said} for _, said in outputs]
        message = {"messageId": f"msg_{submission_digest(outputs)}", "role": "ROLE_USER", "parts": parts}
        further = FurtherRequest({}, [message], None, calls)
    return answer_calls(connection, author, run, outputs, ttl, further=further)


def cancel_for(connection: Connection, author: Author, run: RunRow) -> RunRow:
    """Cancel a run, as `cancel_run` does, and record who did."""
    record(connection, author, run.tenant, "run.cancelled", run.id)
    return cancel_run(connection, run)


def cancel_active(connection: Connection, author: Author, run: RunRow) -> RunRow:
    """Cancel a run, as `cancel_for` does. Raises `ApiError` if it has ended, or is being cancelled."""
    if not run.active or run.status == "cancelling":
        raise ApiError(400, f"Cannot cancel run with status '{run.status}'.")
    return cancel_for(connection, author, run)


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def error_of_run(server: Server, run: RunRow) -> ApiError:
    """Return the error of a failed run. Clients retry failures, so the error tells them not to if a tool was started
    that must not run twice or is no longer known, or if the client's own tools have answered."""
    try:
        log = await server.database.read(partial(read_events, run_id=run.id))
    except DataError:  # unknown, so assume side effects
        return run_failed_error(run, acted=True)
    tools = tools_of(server.deployment, run)
    called = [one.event.action for one in log if isinstance(one.event, Called) and one.event.action.tool not in HOSTED]
    acted = any(one.tool not in tools or tools[one.tool].find_effects(one.tool_input) == "once" for one in called)
    return run_failed_error(run, acted=bool(run.submissions or acted))
