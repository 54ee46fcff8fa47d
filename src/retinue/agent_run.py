"""`Run`: one run of an agent, from its question to its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from ._internal.containment import call_contained, describe_error, is_own_error
from ._internal.representation import one_line_repr
from ._internal.tracebacks import shorten_traceback
from .core.budgets import Deadline, Interrupted
from .core.effects import LibraryEffects
from .core.events import Delta, Event, Finished, RunResult, Started, Stopped, result, usage_of
from .core.log_context import LogContext, current_context, log_context
from .core.loop import Events, drive
from .core.protocols import Flow, Strategy, Task, calls_natively
from .core.replay import beginning, replaying
from .core.run_log import log_event
from .core.toolbox import Toolbox, charge_usage
from .core.values import Capabilities, Decision, Message
from .display.live_trace import run_traced, should_show
from .errors import ModelError, RetinueError, UsageError
from .memory.recall import recall_history, remember
from .run_spec import Specified
from .strategies.auto import Auto, choose_strategy


class Run:
    """One run of an agent. Its `log` grows as it goes; `result` is what it has come to so far.

    `key`: the run's own, under which services know its calls (`toolbox.idempotency_key`); a random one if empty. One
    that goes on where a `log` ends should have the same key as before.
    """

    def __init__(
        self,
        agent: Specified,
        question: str,
        history: Sequence[Message] = (),
        log: Sequence[Event] = (),
        decisions: Mapping[str, Decision] | None = None,
        key: str = "",
    ) -> None:
        if not question.strip():
            raise UsageError("the question is empty; ask something")
        spec = agent.run_spec()
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"a run's key goes into headers: want printable ASCII, not {key[:80]!r}")
        self.key = key or uuid.uuid4().hex
        self.log = list(log)
        self._begun = tuple(log)
        self.budget = spec.budget
        self._spec = spec
        self._task = Task(question, spec.tools, tuple(history))
        self._decisions = decisions or {}
        self._deadline = Deadline()
        self._seconds = 0.0
        self._context = LogContext(self.key, current_context().request)

    def __repr__(self) -> str:
        return one_line_repr(self, self._task.question, agent=self._spec.name, key=self.key, events=len(self.log))

    async def events(self) -> AsyncGenerator[Event | Delta, None]:
        """The run itself: its events as they happen. Raises `ModelError` if the model never says anything (before the
        first event, or after `Stopped`), and other `RetinueError`s if it cannot even begin."""
        began = time.perf_counter()
        if current_context().run == self.key:  # who drives it has said so
            self._context = current_context()
        try:
            driven = self._driven(await self._beginning())
        except Interrupted as end:
            self.log.append(Stopped(end.reason))
            log_event(self.log[-1], self._context)
            yield self.log[-1]
            return
        try:
            async with aclosing(driven) as events:
                async for event in events:
                    if not isinstance(event, Delta):
                        self.log.append(event)
                        log_event(event, self._context)
                    if isinstance(event, Finished | Stopped):
                        await remember(self._spec.memories, self.log, self._begun)
                    self._seconds = time.perf_counter() - began
                    yield event
        finally:
            charge_usage(lambda: usage_of(self.log[len(self._begun) :]))

    async def _beginning(self) -> Started:
        """How it begins, as far as that is found out: as its log has it, if it goes on where that ends."""
        return beginning(self._begun) or Started(
            self._task.question,
            self._spec.name,
            strategy="",  # which is chosen
            model=self._spec.model.name,
            tools=(),
            abilities=await self._abilities(),
            history=await self._history(),
            instructions=self._spec.instructions,
        )

    def _driven(self, begun: Started) -> Events:
        """The run, as it began, driven from there."""
        abilities = begun.abilities
        task = replace(
            self._task,
            history=begun.history,
            constrained=abilities.constrains,
            calls_tools=abilities.calls_tools,
            scripted=abilities.scripted,
        )
        strategy = choose_strategy(self._spec.strategy, task, begun.strategy)
        started = replace(
            begun,
            question=task.question,
            agent=self._spec.name,
            strategy=strategy.name,
            model=self._spec.model.name,
            tools=tuple(tool.name for tool in task.tools),
        )
        toolbox = Toolbox(task.tools, self.key)
        world = LibraryEffects(self._spec.model, self._spec.human, toolbox, self._decisions)
        flow = self._flow(task, strategy, started.instructions)
        return drive(flow, replaying(world, self.log), started, self.budget, self._deadline)

    def _flow(self, task: Task, strategy: Strategy, instructions: str | None) -> Flow:
        """The reasoning; `instructions` are `None` in older logs. Raises `UsageError` if it cannot begin."""
        named = getattr(strategy, "name", type(strategy).__name__)
        told = self._spec.instructions if instructions is None else instructions
        try:
            flow = call_contained(self._spec.flow, task, strategy, told)
        except Exception as error:
            if is_own_error(error):
                raise
            raise UsageError(f"the strategy {named!r} failed: {describe_error(error)}") from error
        if not isinstance(flow, Generator):
            raise UsageError(f"the strategy {named!r} gave a {type(flow).__name__}; want a generator")
        return flow

    async def finish(self) -> RunResult:
        """Run to the end, shown if its agent's `trace` says so; what it came to. Raises as `events` does."""
        with log_context(self._context):
            try:
                if should_show(self._spec.trace):
                    return await run_traced(self)
                async with aclosing(self.events()) as events:
                    async for _ in events:
                        pass
            except RetinueError as error:
                raise shorten_traceback(error) from error.__cause__
        return self.result

    async def _abilities(self) -> Capabilities:
        """What the model can do."""
        self._deadline.start(None)
        try:
            return await self._deadline.wait(self._found())
        except Exception as error:
            if is_own_error(error) or isinstance(error, Interrupted):
                raise
            raise ModelError(f"the model cannot say what it can do: {describe_error(error)}") from error

    async def _found(self) -> Capabilities:
        """What its engine says, and for native tool calls, what trying them out has shown."""
        model, strategy = self._spec.model, self._spec.strategy
        native = bool(self._task.tools) and calls_natively(strategy)
        if native and isinstance(strategy, Auto):  # which has no use for them where the model is held to a pattern
            found = await model.abilities()
            if found.constrains or found.scripted:
                return found
        return await model.abilities(native=native)

    async def _history(self) -> tuple[Message, ...]:
        """The conversation before: what the memories recall, and then what was given."""
        found = await self._deadline.wait(recall_history(self._spec.memories, self._task.question))
        return (*found, *self._task.history)

    def cancel(self) -> None:
        """End it as `CANCELLED`, at once. May be called from any thread."""
        self._deadline.cancel()

    @property
    def result(self) -> RunResult:
        """What the run has come to so far."""
        return result(self.log, self._seconds)
