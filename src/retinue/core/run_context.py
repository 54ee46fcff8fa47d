"""The context in which code runs: which run this is, who asked for it, and which call of a tool is under way. A task
has one `RunContext`, and so have the tasks and threads that it starts.

It knows the path of runs by which a run was called over the network, which is passed on in a header so that circles are
refused, and the trace that the run belongs to, by W3C Trace Context. The ids of spans follow from the run, so they are
the same whoever computes them, also after a crash."""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, Self
from urllib.parse import quote, unquote

from typing_extensions import TypeVar

from .._internal.foreign_text import make_well_formed
from .._internal.redaction import encode_secret, redact, redact_also
from ..errors import NotDone, UsageError
from .events import Reported
from .run_texts import OfProcess as TextsOfProcess, RunTexts
from .user_records import OfProcess, UserRecords
from .values import AgentAction, File, HelperState, Observation, Usage
from .workspace import Workspace

FindSecret = Callable[[Literal["user", "tenant"], str], Awaitable[str | None]]
Deps = TypeVar("Deps", default=Any)  # what the code of an agent needs: a database, a client, a configuration
_Deps = TypeVar("_Deps", default=Any, covariant=True)
CALLERS_HEADER = "X-Retinue-Callers"
MAX_CALLERS = 5  # runs that call each other over the network
_LONGEST_PATH = 4_000  # characters of the header
_MOST_REPORTS, _MOST_WAITING, _LONGEST_REPORT = 1_000, 100, 500  # of a drive; until they are told; characters
_PART = re.compile(r"[A-Za-z0-9._~%-]*")


class Caller(NamedTuple):
    """A run on the path: its server, its agent, itself, and its thread (empty: none)."""

    server: str
    agent: str
    run: str = ""
    thread: str = ""

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in self)


class Incoming(NamedTuple):
    """A call that came over the network: to which server, and by which path."""

    server: str
    callers: tuple[Caller, ...]

    def describe_refusal(self, agent: str) -> str:
        """Return why `agent` may not be called, or an empty string."""
        path = " → ".join([*(one.agent for one in self.callers), agent])
        if any((one.server, one.agent) == (self.server, agent) for one in self.callers):
            return f"The agent '{agent}' is among its own callers ({path}); agents must not call in a circle."
        if len(self.callers) > MAX_CALLERS:
            return f"There are {len(self.callers)} callers ({path}); the most is {MAX_CALLERS}."
        return ""


def parse_callers(text: str) -> tuple[Caller, ...]:
    """Return the path in a header. Raises `ValueError` if it is none, or too long."""
    if len(text) > _LONGEST_PATH:
        raise ValueError(f"it has more than {_LONGEST_PATH:,} characters")
    found = []
    for item in filter(None, map(str.strip, text.split(","))):
        parts = item.split("/")
        if len(parts) != len(Caller._fields) or not all(map(_PART.fullmatch, parts)):
            raise ValueError(f"{item[:80]!r} is not SERVER/AGENT/RUN/THREAD")
        found.append(Caller(*map(unquote, parts)))
    return tuple(found)


_TRACE_HEADERS = TRACE_HEADER, STATE_HEADER = "traceparent", "tracestate"
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_LONGEST = 512  # characters of `tracestate`
_SAMPLED = 1


class TraceParent(NamedTuple):
    """A span of whatever called: the trace's id (16 bytes), the span's (8), and whether the trace is recorded. `state`
    is what other vendors add, which is passed on as it is."""

    trace_id: bytes
    span_id: bytes
    sampled: bool = True
    state: str = ""

    def __str__(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{self.sampled:02x}"

    @classmethod
    def parse(cls, parents: Sequence[str], states: Sequence[str] = ()) -> Self | None:
        """Return what the values of the two headers say. A `traceparent` that is malformed, or sent twice, is ignored
        as the standard demands: the result is `None`."""
        found = _PARENT.fullmatch(parents[0].strip(" \t")) if len(parents) == 1 else None
        if found is None:
            return None
        version, trace, span, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not trace.strip("0") or not span.strip("0"):
            return None
        state = ",".join(states)
        kept = state if len(state) <= _LONGEST and state.isascii() and state.isprintable() else ""
        return cls(bytes.fromhex(trace), bytes.fromhex(span), bool(int(flags, 16) & _SAMPLED), kept)

    def headers(self) -> dict[str, str]:
        """Return the headers that tell others of it, which are also how it is stored."""
        return {TRACE_HEADER: str(self)} | ({STATE_HEADER: self.state} if self.state else {})


def read_stored_parent(request: Mapping[str, object]) -> TraceParent | None:
    """Return the caller's span that was stored with a run's request, if there was one."""
    parent, state = ([one] if isinstance(one := request.get(name), str) else [] for name in _TRACE_HEADERS)
    return TraceParent.parse(parent, state)


def derive_trace_id(run_id: str) -> bytes:
    """Return the id of the trace of a run that nobody called within a trace; `run_id` is that of the team's top."""
    return hashlib.sha256(f"trace {run_id}".encode("utf-8", "replace")).digest()[:16]


def derive_span_id(what: str, name: str) -> bytes:
    """Return the id of a span: of the run, model call or tool call (`what`) of this name."""
    return hashlib.sha256(f"{what} {name}".encode("utf-8", "replace")).digest()[:8]


STORED_ID = "request_id"
"""Where the id of the request that began a run is stored: in what the run was asked for."""


class BudgetLeft(NamedTuple):
    """What a run may still use: replies of its model, seconds, tokens, and cost; `None` without a limit."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(slots=True)
class ToolCall:
    """A call of a tool that is under way. What it runs adds to its usage and its files.

    Args:
        id: The call's id in its run.
        tool: The name of the tool.
        earlier: The calls of the run so far, in order, each with its `Tool` and what it brought. A tool whose work
            depends on them stays stateless: it can serve many runs at once, and in a resumed run it finds the recorded
            calls.
        effects: What the tool may do, once it is called.
        key: The idempotency key, `run/call`. It stays the same if the run is resumed and repeats the call.
        usage: What agents used that the call ran.
        seconds: The duration of a member's run, which its caller may not have awaited.
        files: The files in its result so far, which go to the model beside the text.
        data: What it returned for the application, as JSON.
        helpers: What became of helpers in the background.
        is_over: Whether it has ended, though its code may still run.
    """

    id: str
    tool: str
    earlier: Sequence[tuple[Any, AgentAction, Observation]] = ()
    effects: Literal["read", "idempotent", "once"] = "read"
    key: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    files: list[File] = field(default_factory=list)
    data: Any = None
    helpers: list[HelperState] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True)
class Progress:
    """How far a run is: its current step. After `fresh_until`, in monotonic seconds, another process may have taken the
    run over, so no effect begins before that was looked up. `reports` are those that are not in the log yet, of
    `reported` so far; `wake` is called, from any thread, when there is one. `left` says what the run may still use."""

    step: int = 0
    fresh_until: float = math.inf
    reports: deque[Reported] = field(default_factory=partial(deque, maxlen=_MOST_WAITING))
    reported: int = 0
    wake: Callable[[], None] | None = None
    left: Callable[[], BudgetLeft] | None = None


class StaleCall(Exception):
    """A call was not begun: its process may have been frozen, and the run may be another's by now."""


async def _confirm_nothing() -> None:
    """Where nobody else can take a run over, there is nothing to look up."""


@dataclass(frozen=True)  # without slots: RunContext[Database](…) sets an attribute
class RunContext(Generic[_Deps]):
    """Where code runs; everything is empty outside of a run and a request.

    Args:
        deps: What the run was given for the code of its agent. A model never sees it, and no log has it.
        user: For whom the run is. On a server it is who was authenticated, never what a client or a model says.
        tenant: Whose the run is, on a server.
        thread: The conversation that the run belongs to.
        metadata: What the client noted down of the run. It is the client's word: decide nothing by it.
        run: The key of the run; on a server, its id.
        agent: The name of the agent.
        request: The id of the server's request that began the run.
        client_request: The client's own id of that request.
        client_trace: The id of the client's trace.
        trace: The span of the run, of which it tells the servers that it calls.
        callers: The path of runs that called each other over the network; it ends with this one.
        call: The call of a tool that is under way.
        watch: Is called with the run's key and each request to a model (`Ask`), for a person who watches the run.
        parks: Says whether an interrupted run is continued later, or by another process.
        progress: How far the run is.
        find_secret: Finds a secret of the user, or of the tenant, by its name.
        revealed: The secrets that were found, in all forms in which they are replaced in texts.
        confirm: Looks up whether this process still has the run. Raises if it has not.
        stored: What a store knows of the run's user, if the run has a store.
        workspace: The files of the run, if its agent has any.
        texts: Where texts of the run are kept beside its log, if the run has a store.
    """

    deps: _Deps = None  # type: ignore[assignment]  # where nobody gave any
    user: str = ""
    tenant: str = ""
    thread: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    agent: str = ""
    request: str = ""
    client_request: str = ""
    client_trace: str = ""
    trace: TraceParent | None = None
    callers: tuple[Caller, ...] = ()
    call: ToolCall | None = None
    watch: Callable[[str, Any], None] | None = None
    parks: Callable[[], bool] = lambda: False
    progress: Progress = field(default_factory=Progress)
    confirm: Callable[[], Awaitable[None]] = _confirm_nothing
    find_secret: FindSecret | None = field(default=None, repr=False)
    revealed: set[str] = field(default_factory=set, repr=False)
    stored: UserRecords | None = None
    workspace: Workspace | None = None
    texts: RunTexts | None = None

    async def secret(self, name: str, *, of: Literal["user", "tenant"] = "user") -> str:
        """Return a secret of the run's user, or of its tenant: on a server, what was set there; otherwise what the run
        was given as `secrets`, or the variable `name` of the environment. From then on, it is replaced in whatever
        tools return to this run. Raises `NotDone` if there is none, which tells the model."""
        found = os.environ.get(name) if self.find_secret is None else await self.find_secret(of, name)
        if not found:
            whose = "the user of this run" if of == "user" else "the tenant of this run"
            raise NotDone(f"{whose} has no secret {name}: it has to be set first, outside of this conversation")
        self.revealed.update(encode_secret(found))
        return found

    @property
    def records(self) -> UserRecords:
        """What is known of the run's user: by the store, or by this process."""
        return self.stored or OfProcess(self.tenant, self.user)

    @property
    def kept_texts(self) -> RunTexts:
        """Where texts of the run are kept: in its store, or by this process."""
        return self.texts or TextsOfProcess(self.tenant, self.user, self.agent, self.run)

    @property
    def trace_id(self) -> str:
        """The id of the trace that log records name: the client's, or else the run's."""
        return self.client_trace or ("" if self.trace is None else self.trace.trace_id.hex())

    @property
    def is_continued(self) -> bool:
        """Whether the run, which is being interrupted, is continued by somebody. Whoever does needs what a tool has
        started at another service, so the tool must not end that."""
        return self.parks()

    @property
    def budget_left(self) -> BudgetLeft:
        """What the run may still use."""
        return BudgetLeft() if self.progress.left is None else self.progress.left()

    def report(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Tell whoever watches the run how far its code is, such as `report("3 of 7 pages", 3, 7)`: by an event
        `Reported` in its log. From any thread. Outside of a run, and after the end of the call, nothing is told.

        A text has at most 500 characters, and a run 1,000 reports. Raises `UsageError` for what is no finite number.
        """
        for name, number in (("done", done), ("total", total)):
            if number is not None and not (isinstance(number, int | float) and math.isfinite(number)):
                raise UsageError(f"report: {name}: want a finite number, not {number!r:.80}")
        here, call = self.progress, self.call
        if not self.run or (call is not None and call.is_over) or here.reported >= _MOST_REPORTS:
            return
        here.reported += 1
        said = redact(make_well_formed(str(text)))[:_LONGEST_REPORT]
        here.reports.append(Reported(here.step, said, "" if call is None else call.id, done, total))
        if here.wake is not None:
            here.wake()

    def of_run(self, run: str, agent: str = "") -> RunContext[_Deps]:
        """Return the context of a run that begins here."""
        return replace(self, run=run, agent=agent, progress=Progress(), revealed={*self.revealed})

    def headers(self) -> dict[str, str]:
        """Return the headers that tell other servers who calls: the path of callers, and the span of the run."""
        path = {CALLERS_HEADER: ", ".join(map(str, self.callers))} if self.callers else {}
        return path if self.trace is None else path | self.trace.headers()


_CURRENT: ContextVar[RunContext[Any]] = ContextVar("retinue_run")
_NOWHERE: RunContext[Any] = RunContext()


def current_run() -> RunContext[Any]:
    """Return the context of the current task."""
    return _CURRENT.get(_NOWHERE)


redact_also(lambda: current_run().revealed)


def enter_run_context(context: RunContext[Any]) -> None:
    """Set the context of the current task until the task ends."""
    _CURRENT.set(context)


@contextmanager
def run_context(context: RunContext[Any]) -> Iterator[None]:
    """Set the context within the block."""
    token = _CURRENT.set(context)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check_fresh() -> None:
    """Raise `StaleCall` if the current call may change something, and its run may be another process's by now."""
    run = current_run()
    if run.call is not None and run.call.effects != "read" and time.monotonic() > run.progress.fresh_until:
        raise StaleCall


def find_among(secrets: Mapping[str, str]) -> FindSecret:
    """Return what finds these secrets, whosever they are."""

    async def find(of: Literal["user", "tenant"], name: str) -> str | None:
        return secrets.get(name)

    return find


def charge_usage(usage: Callable[[], Usage]) -> None:
    """Charge the tokens of a nested run to the tool call that contains it, if any."""
    if (call := current_run().call) is not None:
        call.usage += usage()


def idempotency_key() -> str:
    """Return the idempotency key of the current tool call, `run/call`; empty outside of a call. It stays the same if
    the run is resumed under its key and repeats the call."""
    call = current_run().call
    return "" if call is None else call.key


def change_key() -> str:
    """Return the key of the current call for changes of a workspace. It is that of this call alone, also if an equal
    one failed before: the files may be others by now, so what this one writes is meant."""
    here = current_run()
    return "" if here.call is None else f"{here.run}/{here.call.id}"


def idempotency_header() -> dict[str, str]:
    """Return the HTTP header with the idempotency key, if the current call may have effects."""
    call = current_run().call
    return {} if call is None or not call.key or call.effects == "read" else {"Idempotency-Key": call.key}
