"""`Run`: one run of an agent, from its question to its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._internal.containment import describe_error, is_own_error
from .._internal.message_text import one_line_repr
from .._internal.tracebacks import shorten_traceback
from ..core.deadline import Deadline, Interrupted
from ..core.delegation import Delegate
from ..core.effects import LibraryEffects
from ..core.event_stream import Tell, tell, told
from ..core.events import ENDINGS, Delta, Event, Started, Stopped, find_started
from ..core.file_format import check_together, event_with_data, messages_with_data, with_data
from ..core.loop import drive
from ..core.prices import FREE, price_of
from ..core.protocols import Effects, Task, calls_natively, kinds_read, unreadable
from ..core.run_context import RunContext, charge_usage, current_run, run_context
from ..core.run_log import log_event
from ..core.run_result import RunResult, result, usage_of
from ..core.toolbox import KeepFiles, Toolbox
from ..core.values import Capabilities, File, Kind, Message
from ..display.live_trace import run_traced, should_show
from ..errors import ModelError, RetinueError, UsageError
from ..memory.recall import recall_history, remember
from ..net.file_source import FileSource, load_files
from ..strategies.auto import Auto
from ..telemetry.activation import live_spans
from .nested import Earlier, Listener, NestedRuns
from .recorded_effects import ContinuedRun
from .spec import Specified, check_prices

if TYPE_CHECKING:
    from ..telemetry.recorder import LiveSpans


def _read_history(history: Any) -> tuple[Message, ...]:
    """Return an earlier conversation, of which mappings have `role` and `content` as in OpenAI's API."""
    found: list[Message] = []
    several = isinstance(history, Iterable | None) and not isinstance(history, Mapping | str)
    for one in (history or ()) if several else (history,):
        if isinstance(one, Mapping) and one.keys() == {"role", "content"} and isinstance(one["content"], str):
            found.append(Message(one["role"], one["content"]))
        elif isinstance(one, Message):
            found.append(one)
        else:
            raise UsageError(f"history: want Messages, or mappings with role and content as text, not {one!r:.80}")
    return tuple(found)


class Run:
    """One run of an agent. `log` grows as the run proceeds; `result` is its outcome so far.

    `key` is the idempotency key that services receive with calls (`idempotency_key`); random if empty. A run
    that continues a `log` should have the original key. With `regardless` set, it continues the log of an agent that
    asked for the same in other words. `files` are shown with the question, to a model that can see. `delegate` runs
    the agents among its tools; by default they run where this run does, and `listener` hears of their events.
    Telemetry records it, as the run of a team's `member` or its own, unless `recorded` says that its driver does that.
    """

    regardless = False
    recorded = False
    member = False
    files: Sequence[FileSource] = ()
    keep_files: KeepFiles | None = None
    listener: Listener | None = None

    def __init__(
        self,
        agent: Specified,
        question: str,
        history: Sequence[Message | Mapping[str, Any]] = (),
        earlier: Earlier = Earlier(),
        key: str = "",
    ) -> None:
        if not isinstance(question, str):
            raise UsageError(f"a question is a text, not a {type(question).__name__}; several go to run_batch")
        if not question.strip():
            raise UsageError("the question is empty; ask something")
        spec = agent.run_spec()
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"a run's key is sent in HTTP headers: want printable ASCII, not {key[:80]!r}")
        self.key = key or uuid.uuid4().hex
        self.log = list(earlier.log)
        self._begun = tuple(earlier.log)
        self.budget = spec.budget
        self._spec = spec
        self._task = Task(question, spec.tools, _read_history(history))
        self._decisions = earlier.decisions
        self._nested = NestedRuns(_nested, self._task, self.key, spec.human, earlier)
        self.delegate: Delegate = self._nested
        self._deadline = Deadline()
        self._seconds = self._since = 0.0
        self._context = RunContext(self.key)  # until it begins
        self._spans: LiveSpans | None = None

    def __repr__(self) -> str:
        return one_line_repr(self, self._task.question, agent=self._spec.name, key=self.key, events=len(self.log))

    async def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Drive the run and yield its events as they happen.

        Raises `ModelError` if the model never replies (before the first event, or after `Stopped`), and other
        `RetinueError`s if the run cannot begin.
        """
        with run_context(self._entered()):
            work = await self._begin(tell)
            within = copy_context()  # the reader has a context of its own
        if work is None:
            yield self.log[-1]
            return
        driven = told(work, within)
        try:
            async for event in driven:
                self._note(event)
                if isinstance(event, ENDINGS):
                    await self._remember()
                yield event
        finally:
            self._charge()
            await driven.aclose()

    async def _begin(self, tell: Tell) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return what drives the run, and `tell`s its events; `None` if it was interrupted, as its log says then. The
        run's context is current, and is completed here."""
        check_prices(self._spec.model, self._spec.tools, self.budget)
        self._since = time.perf_counter()
        self._nested.listener = self.listener
        if not self.recorded:
            self._spans = live_spans(self.key, self._spec.model, self._begun, member=self.member)
        self._context = current_run()
        try:
            return self._driven(await self._beginning(), tell)
        except Interrupted as end:
            self._note(Stopped(end.reason))
            return None
        except RetinueError as error:
            if self._spans is not None:
                self._spans.end(str(error))
            raise

    def _entered(self) -> RunContext:
        """Return the context of the run where it begins; the run's driver may have set it already."""
        here, name = current_run(), self._spec.name
        return replace(here, agent=name) if here.run == self.key else here.of_run(self.key, name)

    async def _remember(self) -> None:
        with run_context(self._context):
            await remember(self._spec.memories, self.log, self._begun)

    async def _noted(self, event: Event | Delta) -> None:
        self._note(event)

    def _note(self, event: Event | Delta) -> None:
        if not isinstance(event, Delta):
            self.log.append(event)
            log_event(event, self._context)
            if self._spans is not None:
                self._spans.see(event)
        self._seconds = time.perf_counter() - self._since

    async def _conclude(self) -> None:
        if self.log and isinstance(self.log[-1], ENDINGS):
            await self._remember()
        self._charge()

    def _charge(self) -> None:
        if self._spans is not None:
            self._spans.end()
        charge_usage(lambda: usage_of(self.log[len(self._begun) :]))

    async def _beginning(self) -> Started:
        """Return the first event as far as it is known; a continued run takes it from its log."""
        if (begun := find_started(self._begun)) is not None:
            data = {one.id: one.data for one in await load_files(self.files)}
            history = messages_with_data(begun.history, data)
            self.log = [event_with_data(event, data) for event in self.log]
            self._decisions = {
                call: replace(one, files=with_data(one.files, data)) for call, one in self._decisions.items()
            }
            files = with_data(begun.files, data)
            return replace(begun, question=self._task.question, history=history, files=files)
        abilities = await self._abilities()
        files = await self._loaded()
        check_together(files)
        return Started(
            self._task.question,
            self._spec.name,
            strategy="",  # chosen later
            model=self._spec.model.name,
            tools=(),
            abilities=abilities,
            history=await self._history(),
            instructions=self._spec.instructions,
            files=files,
        )

    def _driven(self, begun: Started, tell: Tell) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return what drives the run from its first event."""
        started, flow = self._spec.begin(begun)
        toolbox = Toolbox(self._spec.tools, self.key, self.delegate, self.keep_files)
        effects: Effects = LibraryEffects(self._spec.model, self._spec.human, toolbox, self._decisions, tell)
        if self.log:
            effects = ContinuedRun(effects, self.log, regardless=self.regardless)
        return drive(flow, effects, started, self.budget, self._deadline, price_of(self._spec.model) or FREE)

    async def finish(self) -> RunResult:
        """Run to the end and return the result; the run is shown if the agent's `trace` asks for it. Raises as `events`
        does.
        """
        with run_context(self._entered()):
            try:
                if should_show(self._spec.trace):
                    return await run_traced(self)
                # Without a reader, who would cost each event a way through all that wait for it.
                work = await self._begin(self._noted)
                if work is None:
                    return self.result
                try:
                    await work()
                finally:
                    await self._conclude()
            except RetinueError as error:
                raise shorten_traceback(error) from error.__cause__
        return self.result

    async def _abilities(self) -> Capabilities:
        """Return the model's capabilities."""
        self._deadline.start(None)
        try:
            return await self._deadline.wait(self._found())
        except Exception as error:
            if is_own_error(error) or isinstance(error, Interrupted):
                raise
            raise ModelError(f"the model's `abilities` failed: {describe_error(error)}") from error

    async def _found(self) -> Capabilities:
        """Return the engine's capabilities; whether native tool calls work is found out by a probe."""
        model, strategy = self._spec.model, self._spec.strategy
        if self.files or any(turn.files for turn in self._task.history):
            await self._check_kinds(await kinds_read(model))
        native = bool(self._task.tools) and calls_natively(strategy)
        if native and isinstance(strategy, Auto):  # not needed where the engine constrains the reply's text
            found = await model.abilities()
            if found.constrains or found.scripted:
                return found
        return await model.abilities(native=native)

    async def _check_kinds(self, read: Collection[Kind]) -> None:
        """Raise `UsageError` for a file that the model is not known to read. What tools returned it is told of."""
        if not read and self.files:
            raise UsageError(unreadable(self._spec.model.name, "image"))  # whatever they are, they need not be loaded
        files = [*await self._loaded(), *(one for turn in self._task.history if not turn.tool for one in turn.files)]
        if lacking := [one.kind for one in files if one.kind not in read]:
            raise UsageError(unreadable(self._spec.model.name, lacking[0]))

    async def _loaded(self) -> tuple[File, ...]:
        """Return the question's files, which are then loaded."""
        if self.files:
            self.files = await self._deadline.wait(load_files(self.files))
        return tuple(one for one in self.files if isinstance(one, File))

    async def _history(self) -> tuple[Message, ...]:
        """Return the earlier conversation: recalled memories first, then the history passed in."""
        found = await self._deadline.wait(recall_history(self._spec.memories, self._task.question))
        return (*found, *self._task.history)

    def cancel(self) -> None:
        """Cancel the run at once; it ends as `CANCELLED`. Thread-safe."""
        self._deadline.cancel()

    @property
    def result(self) -> RunResult:
        """The outcome of the run so far."""
        return result(self.log, self._seconds, self._nested.children)


def _nested(member: Specified, task: Task, earlier: Earlier, key: str) -> Run:
    run = Run(member, task.question, task.history, earlier, key)
    run.member = True
    return run
