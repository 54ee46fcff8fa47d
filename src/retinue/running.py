"""`Run`: one run of an agent, from its question to its end."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from .budgets import Deadline, Interrupted
from .effects import LibraryEffects
from .errors import RetinueError, UsageError
from .events import Delta, Event, Finished, Replied, RunResult, Started, Stopped, result
from .hiding import hidden
from .loop import drive
from .ports import Task
from .remembering import recalled, remember
from .schema import Abilities, Decision, Message, StopReason
from .strategies.acting_out import ActingOut
from .strategies.auto import Auto, chosen
from .suggestions import suggestion
from .toolbox import Toolbox
from .tracebacks import shortened

if TYPE_CHECKING:
    from .agent import Agent

logger = logging.getLogger(__name__)
_ON_PURPOSE = (StopReason.CANCELLED, StopReason.AWAITING_HUMAN)


class Run:
    """One run of an agent. Its `log` grows as it goes; `result` is what it has come to so far.

    `key`: the run's own, under which services know its calls (`toolbox.idempotency_key`); a random one if empty. One
    that goes on where a `log` ends should have the same key as before.
    """

    def __init__(
        self,
        agent: Agent,
        question: str,
        history: Sequence[Message] = (),
        log: Sequence[Event] = (),
        decisions: Mapping[str, Decision] | None = None,
        key: str = "",
    ) -> None:
        if not question.strip():
            raise UsageError("the question is empty; ask something")
        if not agent.tools and isinstance(agent.strategy, ActingOut):
            raise UsageError(f"{agent.name} has no tools to run; give it some: Executor([…])")
        asked = agent.require_human_feedback
        if asked and asked is not True:
            names = [tool.name for tool in agent.tools]
            if unknown := [name for name in asked if name not in names]:
                raise UsageError(f"require_human_feedback: no tool {unknown[0]!r}; {suggestion(unknown[0], names)}")
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"a run's key goes into headers: want printable ASCII, not {key[:80]!r}")
        self.key = key or uuid.uuid4().hex
        self.log = list(log)
        self._begun = tuple(log)
        self.budget = agent.budget
        self._agent = agent
        self._task = Task(question, agent.tools_of_a_run(), tuple(history))
        self._decisions = decisions or {}
        self._deadline = Deadline()
        self._seconds = 0.0

    async def events(self) -> AsyncGenerator[Event | Delta, None]:
        """The run itself: its events as they happen. Raises `ModelError` if the model never says anything: before the
        first event, or after `Stopped`."""
        began = time.perf_counter()
        try:
            abilities = await self._abilities()
            history = await self._history()
        except Interrupted as end:
            self.log.append(Stopped(end.reason))
            yield self.log[-1]
            return
        task = replace(
            self._task,
            history=history,
            constrained=abilities.constrains,
            calls_tools=abilities.calls_tools,
            scripted=abilities.scripted,
        )
        recorded = self._recorded
        strategy = chosen(self._agent.strategy, task, recorded.strategy if recorded else "")
        started = Started(
            task.question,
            self._agent.name,
            strategy.name,
            self._agent.model.name,
            tuple(tool.name for tool in task.tools),
            abilities,
            task.history,
            recorded.instructions if recorded else self._agent.instructions,
        )
        toolbox = Toolbox(task.tools, self.key)
        effects = LibraryEffects(self._agent.model, self._agent.human, toolbox, self._decisions)
        told = self._agent.instructions if started.instructions is None else started.instructions
        flow = self._agent.flow(task, strategy, told)
        async with aclosing(drive(flow, effects, started, self.budget, self._deadline, list(self.log))) as events:
            async for event in events:
                if not isinstance(event, Delta):
                    self.log.append(event)
                    self._warn(event)
                if isinstance(event, Finished | Stopped):
                    await remember(self._agent.memories, self.log, self._begun)
                self._seconds = time.perf_counter() - began
                yield event

    def _warn(self, event: Event) -> None:
        """Log an end without an answer; of a model that never said anything, the error that is raised is enough."""
        if not isinstance(event, Stopped) or event.answer or event.reason in _ON_PURPOSE:
            return
        if event.reason is not StopReason.ERROR or any(isinstance(one, Replied) for one in self.log):
            detail = event.detail or "no reason given"
            logger.warning("%s ended without an answer: %s: %s", self._agent.name, event.reason, hidden(detail))

    async def finish(self) -> RunResult:
        """Run to the end; what it came to. Raises `ModelError` as `events` does."""
        try:
            async with aclosing(self.events()) as events:
                async for _ in events:
                    pass
        except RetinueError as error:
            raise shortened(error) from error.__cause__
        return self.result

    async def _abilities(self) -> Abilities:
        """What the model can do: as recorded, else as its engine says."""
        if self._recorded is not None:
            return self._recorded.abilities
        self._deadline.start(None)
        model, strategy = self._agent.model, self._agent.strategy
        native = bool(self._task.tools) and bool(getattr(strategy, "native", False))
        if native and isinstance(strategy, Auto):  # which has no use for them where the model is held to a pattern
            found = await self._deadline.wait(model.abilities())
            if found.constrains or found.scripted:
                return found
        return await self._deadline.wait(model.abilities(native=native))

    @property
    def _recorded(self) -> Started | None:
        """How the run began, if it goes on where a log ends."""
        return next((event for event in self._begun if isinstance(event, Started)), None)

    async def _history(self) -> tuple[Message, ...]:
        """The conversation before: as recorded, else what the memories recall and then what was given."""
        if self.log:
            return self._task.history
        found = await self._deadline.wait(recalled(self._agent.memories, self._task.question))
        return (*found, *self._task.history)

    def cancel(self) -> None:
        """End it as `CANCELLED`, at once. May be called from any thread."""
        self._deadline.cancel()

    @property
    def result(self) -> RunResult:
        """What the run has come to so far."""
        return result(self.log, self._seconds)
