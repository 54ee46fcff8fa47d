"""What every route needs: the server's parts, and whose request it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from sqlalchemy import Connection

from ..core.run_context import STATE_HEADER, TRACE_HEADER, TraceParent
from ..errors import StoreUnavailable
from ..limits.rate import KeyLimits
from ..limits.shares import LARGE, TenantShares
from ..runs import Runs
from ..store.audit_log import Author
from ..store.database import Database
from ..store.due import TIERS
from ..store.run_row import RunRow
from ..store.tenant_view import Quota, TenantView
from ..store.usage_sums import bytes_used
from .agents.call_circles import ServerId, incoming_call
from .agents.deployment import Deployment
from .http.idempotency import Repeat
from .http.limits import Admission, check_texts, check_tokens
from .indexing.indexer import Indexer

T = TypeVar("T")


def tier_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of a request's `service_tier`: which of the runs that wait comes first, if it says so."""
    return {"service_tier": tier} if (tier := asked.get("service_tier")) in TIERS else {}


@dataclass(frozen=True, slots=True)
class Options:
    """Seconds that a run may take, that it may wait for a person or a client's tool, and for which it is kept (0: for
    ever); whether unknown parameters are refused; which tools runs may use that are the server's own; what each
    tenant may keep; and the private servers from which images may be fetched, and those that
    registered tools may call, as `host:port`; the folder with reports of evaluations that the studio shows; seconds
    for which the run of a chat completion without `store` is kept (0: as others), and after which a thread or a
    conversation without news is deleted (0: never); for which entries of the audit log are kept (0: for ever)."""

    run_ttl: int = 600
    human_ttl: int = 86_400
    retention: int = 0
    strict: bool = False
    hosted_tools: tuple[str, ...] = ("file_search",)
    quota: Quota = field(default_factory=Quota)
    image_hosts: tuple[str, ...] = ()
    tool_hosts: tuple[str, ...] = ()
    evals: Path | None = None
    chat_retention: int = 86_400
    thread_retention: int = 0
    audit_retention: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    """The parts of a running server. `heard` are the words of sounds, by tenant, model and SHA-256."""

    deployment: Deployment
    database: Database
    runs: Runs
    options: Options
    indexing: Indexer
    id: ServerId
    limits: KeyLimits = field(default_factory=KeyLimits)
    shares: TenantShares = field(default_factory=TenantShares)
    heard: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def poll_after(self) -> dict[str, str]:
        """The header that says when it is worth asking again, in milliseconds: later, the more there is to do."""
        return {"openai-poll-after-ms": str(min(250 + 5 * self.runs.room.driven, 1_000))}

    def halted(self, run: RunRow | None) -> None:
        """See to what follows when a run was ended from outside: it is interrupted, and its readers are told."""
        self.runs.halted(run)


@dataclass(frozen=True, slots=True)
class Context:
    """A request's: the server, the tenant's view of what it keeps, what it takes of its key's limits, whether it may
    come again. `own` are responses that its connection may go on from though they are not stored; `size`: bytes of its
    body. `state` is the request's: its `wrote` says whether a write was committed, or may have been."""

    server: Server
    scope: TenantView
    admission: Admission
    repeat: Repeat | None = None
    own: frozenset[str] = frozenset()
    size: float = 0
    state: dict[str, Any] = field(default_factory=dict)

    def begin_stream(self) -> None:
        """Call this before a stream is made. Raises `ApiError` (429) for one too many."""
        self.admission.begin_stream()

    async def read(self, work: Callable[[Connection, TenantView], T], *, small: bool = False) -> T:
        """What `work`, which only reads, returns. `small` says that it reads a few rows by their keys."""
        async with self.server.shares.reading.of(self.scope.tenant):
            return await self.server.database.read(lambda connection: work(connection, self.scope), small=small)

    async def write(self, work: Callable[[Connection, TenantView], T], *, small: bool = False) -> T:
        """What `work` returns, once it is committed; where it raises, nothing is. Of a request that may come again it
        must be JSON, a run, or a tuple of these. `small` says that it writes a few rows, if its body is not large."""
        once = work if self.repeat is None else self.repeat.once(work)
        until = self.server.database.deadline()
        before = self.state.get("wrote", False)
        self.state["wrote"] = True  # also if the server stops while the write is under way
        try:
            async with self.server.shares.of_write(self.scope.tenant, self.size):
                written = self.server.database.write
                brief = small and self.size <= LARGE
                return await written(partial(self._within_quota, once), small=brief, until=until)
        except Exception as error:
            self.state["wrote"] = before or (isinstance(error, StoreUnavailable) and error.uncertain)
            raise

    def _within_quota(self, work: Callable[[Connection, TenantView], T], connection: Connection) -> T:
        """Return what `work` returns, unless the texts that it wrote are more than the tenant may keep: checked here,
        whatever the route, for each request that has a body."""
        if not self.size:
            return work(connection, self.scope)
        before = bytes_used(connection, self.scope.tenant, "texts")
        result = work(connection, self.scope)
        check_texts(connection, self.scope, before)
        return result


async def context_of(request: Request) -> Context:  # async: FastAPI has a thread do what is not
    """The context of a request whose key was checked: `request.state.key` is what is known of it."""
    server, state = request.app.state.server, request.state
    key, quota = state.key, server.options.quota
    room = server.limits.room(key.id, server.runs.room.at_once)
    scope = TenantView(key.tenant, key.id, room, key.scopes, quota, key.user)
    scope.check_begin = partial(check_tokens, server.limits, key.id)
    scope.process = server.database.process
    scope.author = Author(key.id, getattr(state, "request_id", None), request.client.host if request.client else None)
    scope.incoming = await incoming_call(request.headers, server.id)
    if TRACE_HEADER in request.headers:  # the caller's, which is stored with the run that the request begins
        parent = TraceParent.parse(request.headers.getlist(TRACE_HEADER), request.headers.getlist(STATE_HEADER))
        scope.trace = {} if parent is None else parent.headers()
    length = request.headers.get("content-length", "")
    size = int(length) if length.isdecimal() else 0.0
    if "transfer-encoding" in request.headers:  # of unknown length: it may be large
        size = math.inf
    own: frozenset[str] = getattr(state, "own_responses", frozenset())
    repeat = getattr(state, "repeat", None)
    return Context(server, scope, state.admission, repeat, own, size, request.scope["state"])


ContextDep = Annotated[Context, Depends(context_of)]
