"""`Run`: one run of an agent, from its question to its end, and `NestedRuns` of the agents that it calls."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic

from .._internal.containment import describe_error, is_own_error
from .._internal.message_text import format_repr
from .._internal.sync_bridge import shorten_traceback
from ..core.budgets import BudgetSpent, Meter
from ..core.events import ENDINGS, Asked, Delta, Event, Retried, Started, Stopped, find_started
from ..core.files import check_together, load_event_files, load_message_files, with_data
from ..core.loop.compaction import Window
from ..core.loop.compactor import Compactor
from ..core.loop.deadline import Deadline, Interrupted
from ..core.loop.drive import drive
from ..core.loop.effects import Human, LibraryEffects
from ..core.loop.event_stream import stream_events
from ..core.loop.judging import drop_unfinished
from ..core.prices import FREE, find_price
from ..core.protocols import Task, can_call_natively, describe_unreadable, list_readable_kinds
from ..core.run_context import RunContext, charge_usage, current_run, enter_run_context, run_context
from ..core.run_log import log_event
from ..core.run_result import RESTING, RunResult, find_ending, find_last_version, fold_result, sum_usage
from ..core.schema.answers import Answer
from ..core.tools.delegation import Delegate, MemberAnswer, MemberCall, Pending, answer_of, with_effects
from ..core.tools.toolbox import KeepFiles, Toolbox
from ..core.values import Capabilities, Decision, File, Kind, Message, StopReason, Usage
from ..core.workspace import Workspace
from ..display.run_display import RunDisplay
from ..errors import ModelError, RetinueError, UsageError
from ..harness import open_folder, wants_workspace
from ..harness.agents_files import read_agents_files
from ..memory.recall import recall_history, remember
from ..net.file_source import FileSource, load_files
from ..strategies.auto import Auto
from ..telemetry.activation import make_live_spans
from ..telemetry.spans import RunSpans
from .recorded_effects import ContinuedRun
from .run_parts import call_for_run, describe_instructions
from .spec import RunSpec, Specified, check_prices

Listener = Callable[[str, Event | Delta], None]
"""Is called with what happens in a run and in its members': the path of call ids to the run, such as
`call_1_0/call_2_0` (empty: the run itself), and the event."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run that continues was given: its log, people's decisions by call id, and its members' logs. Calls of
    members are named by their paths."""

    log: Sequence[Event] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    children: Mapping[str, Sequence[Event]] = field(default_factory=dict)

    def select_call(self, call: str) -> Earlier:
        """Return what belongs to the member's run of this call."""
        inside = f"{call}/"
        return Earlier(
            self.children.get(call, ()),
            {path.removeprefix(inside): one for path, one in self.decisions.items() if path.startswith(inside)},
            {path.removeprefix(inside): one for path, one in self.children.items() if path.startswith(inside)},
        )


class Run(Generic[Answer]):
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
    given: Mapping[str, Any] = MappingProxyType({})
    """What the run's context is told: `deps`, `user`, `thread`, `metadata`."""

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
        self.log = drop_unfinished(list(earlier.log))
        self._begun = tuple(self.log)
        self.budget = spec.budget
        self._spec = spec
        self._task = Task(question, spec.tools, read_history(history))
        self._decisions = earlier.decisions
        self._nested = NestedRuns(self._task, self.key, spec.human, earlier)
        self.delegate: Delegate = self._nested
        self._deadline = Deadline()
        self._seconds = self._since = 0.0
        self._context: RunContext[Any] = RunContext(run=self.key)  # until it begins
        self._spans: RunSpans | None = None

    def __repr__(self) -> str:
        return format_repr(self, self._task.question, agent=self._spec.name, key=self.key, events=len(self.log))

    async def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Drive the run and yield its events as they happen.

        Raises `ModelError` if the model never replies (before the first event, or after `Stopped`), and other
        `RetinueError`s if the run cannot begin.
        """
        here, name = current_run(), self._spec.name
        context = replace(here, agent=name) if here.run == self.key else here.of_run(self.key, name)
        with run_context(replace(context, **self.given, workspace=self._find_workspace(here))):
            work = await self._begin()
            within = copy_context()  # the reader has a context of its own
        if work is None:
            yield self.log[-1]
            return
        driven = stream_events(work, within)
        try:
            async for event in driven:
                self._note(event)
                if isinstance(event, ENDINGS):
                    with run_context(self._context):
                        await remember(self._spec.memories, self.log, self._begun)
                yield event
        finally:
            if self._spans is not None:
                self._spans.leave(time.time_ns())
            charge_usage(lambda: sum_usage(self.log[len(self._begun) :]))
            await driven.aclose()
            last = self.log[-1] if len(self.log) > len(self._begun) else None
            await self._nested.leave(waits=isinstance(last, Stopped) and last.reason in RESTING)

    def _find_workspace(self, here: RunContext[Any]) -> Workspace | None:
        """Return the files of the run: those that its driver gave it, its caller's, or else a folder of its own."""
        given = here.workspace if self.member or here.run == self.key else None
        if given is not None or not wants_workspace(self._spec.harness, self._spec.tools):
            return given
        thread = self.given.get("thread")
        name = f"thread {thread}" if thread else self.key
        return open_folder(self._spec.harness, self, name, find_last_version(self._begun))

    async def _begin(self) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return what drives the run and tells its events; `None` if it was interrupted, as its log says then. The
        run's context is current, and is completed here."""
        check_prices(self._spec.model, self._spec.tools, self.budget)
        self._since = time.perf_counter()
        self._deadline.start(None)
        self._nested.listener = self.listener
        if not self.recorded:
            self._spans = make_live_spans(self.key, self._spec.model, self._begun, member=self.member)
        self._context = current_run()
        try:
            own = self._spec
            spec = await self._deadline.wait(self._complete_spec())
            started = await self._make_started()
            window, context = await self._find_window(started), spec.context
            most = context.limit_results(window)
            toolbox = Toolbox(spec.tools, self.key, self.delegate, self.keep_files, own, most)
            world = LibraryEffects(spec.model, spec.human, toolbox, self._decisions, spec.hooks)
            summarizer = context.model or spec.model
            effects = ContinuedRun(world, self.log, regardless=self.regardless, summarizer=summarizer)
            meter = Meter(self.budget)
            self._context.progress.left = lambda: meter.describe_rest(self._deadline.left)
            compactor = Compactor(context, effects, meter, self._deadline, Window(window), toolbox.lasting)
            price = find_price(spec.model) or FREE
            return drive(spec.begin, effects, started, meter, self._deadline, price, compactor)
        except Interrupted as end:
            self._note(Stopped(end.reason))
            return None
        except RetinueError as error:
            if self._spans is not None:
                self._spans.leave(time.time_ns(), str(error))
            raise

    async def _complete_spec(self) -> RunSpec:
        """Call the functions of the agent: that of what its code needs, which belongs to the context, and others."""
        if self._spec.deps_of is not None and self.given.get("deps") is None:
            deps = await call_for_run("deps_of", self._spec.deps_of, replace(self._context, deps=None))
            self._context = replace(self._context, deps=deps)
            enter_run_context(self._context)
        begun = None if self.regardless else find_started(self._begun)
        self._spec = await self._spec.complete(self._context, begun)
        self._task = replace(self._task, tools=self._spec.tools)
        return self._spec

    def _note(self, event: Event | Delta) -> None:
        if not isinstance(event, Delta):
            self.log.append(event)
            if isinstance(event, Started) and self._spec.hooks:
                self.delegate.learn(event)
            log_event(event, self._context)
            if self._spans is not None:
                self._spans.see(time.time_ns(), event)
        self._seconds = time.perf_counter() - self._since
        if self.listener is not None:
            self.listener("", event)

    async def _make_started(self) -> Started:
        """Return the first event as far as it is known; a continued run takes it from its log."""
        if (begun := find_started(self._begun)) is not None:
            data = {one.id: one.data for one in await load_files(self.files)}
            self.log = [load_event_files(event, data) for event in self.log]
            self._decisions = {
                call: replace(one, files=with_data(one.files, data)) for call, one in self._decisions.items()
            }
            files, history = with_data(begun.files, data), load_message_files(begun.history, data)
            return replace(begun, question=self._task.question, history=history, files=files)
        try:  # outside of the wait, which makes errors of what foreign code raises
            abilities = await self._deadline.wait(self._find_abilities())
        except Exception as error:
            if is_own_error(error) or isinstance(error, Interrupted):
                raise
            raise ModelError(f"the model's `abilities` failed: {describe_error(error)}") from error
        files = await self._load_files()
        check_together(files)
        recalled = await self._deadline.wait(recall_history(self._spec.memories, self._task.question))
        return Started(
            self._task.question,
            self._spec.name,
            strategy="",  # chosen later
            model=self._spec.model.name,
            tools=(),
            abilities=abilities,
            history=(*recalled, *self._task.history, *await self._deadline.wait(self._read_agents_files())),
            instructions=describe_instructions(self._spec.instructions),
            files=files,
            **{name: one for name, one in self.given.items() if name in ("user", "thread", "metadata")},
        )

    async def _read_agents_files(self) -> tuple[Message, ...]:
        named = () if self._spec.harness is None else self._spec.harness.agents_files
        return await read_agents_files(named, self._context.workspace)

    async def _find_window(self, started: Started) -> int | None:
        """Return the model's window in tokens: that of the log, unless the run goes on with another model."""
        if not (self.regardless and self._begun) or started.model == self._spec.model.name:
            return started.abilities.window
        try:
            return (await self._deadline.wait(self._find_abilities())).window
        except ModelError:  # its first request says so
            return started.abilities.window

    async def _find_abilities(self) -> Capabilities:
        """Return the engine's capabilities; whether native tool calls work is found out by a probe."""
        model, strategy = self._spec.model, self._spec.strategy
        if self.files or any(turn.files for turn in self._task.history):
            await self._check_kinds(await list_readable_kinds(model))
        native = bool(self._task.tools) and can_call_natively(strategy)
        if native and isinstance(strategy, Auto):  # not needed where the engine constrains the reply's text
            found = await model.abilities()
            if found.constrains or found.scripted:
                return found
        return await model.abilities(native=native)

    async def _check_kinds(self, read: Collection[Kind]) -> None:
        """Raise `UsageError` for a file that the model is not known to read. What tools returned it is told of."""
        name = self._spec.model.name
        if not read and self.files:  # whatever they are, they need not be loaded
            raise UsageError(describe_unreadable(name, "image"))
        earlier = [one for turn in self._task.history if not turn.tool for one in turn.files]
        for file in (*await self._load_files(), *earlier):
            if file.kind not in read:
                raise UsageError(describe_unreadable(name, file.kind))

    async def _load_files(self) -> tuple[File, ...]:
        """Return the question's files, which are then loaded."""
        if self.files:
            self.files = await self._deadline.wait(load_files(self.files))
        return tuple(one for one in self.files if isinstance(one, File))

    async def finish(self) -> RunResult[Answer]:
        """Run to the end and return the result. If the agent has a `trace` and nobody listens yet, the run is shown on
        standard error. Raises as `events` does.
        """
        try:
            if not self._spec.trace or self.listener is not None:
                return await self.drain()
            with RunDisplay(key=self.key) as display:
                self.listener = display
                display.end(await self.drain())
                return self.result
        except RetinueError as error:
            raise shorten_traceback(error) from error.__cause__

    async def drain(self) -> RunResult[Answer]:
        """Run to the end, where only a listener reads the events. Raises as `events` does."""
        events = self.events()
        try:
            async for _ in events:
                pass
        finally:
            await events.aclose()
        return self.result

    async def partial_answers(self) -> AsyncGenerator[Any, None]:
        """Run to the end, and yield the answer as far as it has arrived whenever there is more of it; the last is the
        answer itself. Text grows. Of an object with named fields, a dict has those that have arrived; of anything else,
        such as a list, there is what is whole. Raises as `events` does, and `NoAnswer` as a result's `answer` does.
        """
        answers, said, last = self._spec.answers, "", None
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Asked) or (isinstance(event, Retried) and answers):
                    said = ""
                if isinstance(event, Delta):
                    said += event.text if answers else event.answer
                    now = answers.read_part(said) if answers else said
                    if now and now != last:
                        yield (last := now)
        if self.result.text or answers:
            yield self.result.answer

    def cancel(self) -> None:
        """Cancel the run at once; it ends as `CANCELLED`. Thread-safe."""
        self._deadline.cancel()

    @property
    def result(self) -> RunResult[Answer]:
        """The outcome of the run so far."""
        return fold_result(self.log, self._seconds, self._nested.children, self._spec.answers, self.key)


@dataclass(slots=True)
class NestedRuns:
    """Runs members where their caller runs, which waits for them.

    `task`, `key` and `human` are the caller's: a member without a `human` asks that one. `children` has the logs so
    far, by the paths of their calls.
    """

    task: Task
    key: str
    human: Human | None
    earlier: Earlier
    listener: Listener | None = None
    children: dict[str, tuple[Event, ...]] = field(init=False)
    _tasks: dict[str, asyncio.Task[MemberAnswer]] = field(default_factory=dict)  # helpers in the background

    def __post_init__(self) -> None:
        self.children = {path: tuple(log) for path, log in self.earlier.children.items()}

    def learn(self, started: Started) -> None:
        """Note the caller's question, as hooks left it."""
        self.task = replace(self.task, question=started.question, history=started.history)

    def can_continue(self, call: str) -> bool:
        """Whether the log of this call's run is known."""
        return call in self.earlier.children

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Run the member to its end, or continue its run. Raises `Pending` if it waits for a person."""
        return await (asyncio.shield(self._tasks[member.call]) if member.in_background else self._run(member))

    async def begin_helper(self, helper: MemberCall) -> None:
        """Run a helper beside its caller."""
        self._tasks[helper.call] = asyncio.create_task(self._run(helper), name=helper.name)

    async def find_ended(self, helpers: Sequence[MemberCall]) -> dict[str, MemberAnswer | None]:
        """Return how those helpers ended that have, and let those go on that an earlier drive began."""
        for one in helpers:
            if one.call not in self._tasks and self.can_continue(one.call):
                await self.begin_helper(one)
        tasks = {one.call: self._tasks.get(one.call) for one in helpers}
        over = {call: one for call, one in tasks.items() if one is None or (one.done() and one.exception() is None)}
        return {call: None if task is None else task.result() for call, task in over.items()}

    async def leave(self, *, waits: bool) -> None:
        """End with the caller: if it rests, once the helpers in the background have ended, else at once."""
        for task in self._tasks.values() if not waits else ():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, member: MemberCall) -> MemberAnswer:
        try:
            answer = await self._ask(member)
        except (Pending, BudgetSpent):
            raise
        except Exception as error:  # a member may raise anything, too
            text = f"{member.name} failed: {describe_error(error)}"
            answer = MemberAnswer("failed", text, Usage(runs=1), 0.0)
        return with_effects(answer, member, self.children.get(member.call, ()))

    async def _ask(self, member: MemberCall) -> MemberAnswer:
        call, spec = member.call, member.run_spec()
        spec = replace(spec, budget=member.budget(spec.budget), human=spec.human or self.human)
        task = self.task if member.passes_conversation else Task(member.question)
        run: Run[Any] = Run(spec, task.question, task.history, self.earlier.select_call(call), f"{self.key}/{call}")
        run.member = True
        run.listener = partial(self._pass_on, call)
        try:
            await run.drain()
        finally:
            self.children[call] = run.result.events
            self.children |= {f"{call}/{path}": log for path, log in run.result.children.items()}
        result = run.result
        if result.stop_reason is StopReason.AWAITING_HUMAN:
            calls = ", ".join(f"{one.tool} ({call}/{one.id})" for one in result.waiting)
            raise Pending(result.stop_reason, f"{member.name}: no person has decided on {calls}")
        return answer_of(member.name, find_ending(result.events), result.usage, 0.0)

    def _pass_on(self, call: str, path: str, event: Event | Delta) -> None:
        if self.listener is not None:
            self.listener(f"{call}/{path}" if path else call, event)


def read_history(history: Any) -> tuple[Message, ...]:
    """Return an earlier conversation, of which mappings have `role` and `content` as in OpenAI's API."""
    several = isinstance(history, Iterable | None) and not isinstance(history, Mapping | str)
    found = list(history or ()) if several else [history]
    for at, one in enumerate(found):
        if isinstance(one, Mapping) and one.keys() == {"role", "content"} and isinstance(one["content"], str):
            found[at] = Message(one["role"], one["content"])
        elif not isinstance(one, Message):
            raise UsageError(f"history: want Messages, or mappings with role and content as text, not {one!r:.80}")
    return tuple(found)
