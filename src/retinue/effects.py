"""The effects of a run in the caller's own process."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

from .ports import Chunks, Model
from .prompt import Ask
from .schema import AgentAction, Decision, Observation
from .toolbox import Toolbox

Human = Callable[[AgentAction, str], Awaitable[Decision | None] | Decision | None]


class LibraryEffects:
    """Asks `model`, runs the tools of `toolbox`, and takes decisions from those given, else from `human`."""

    def __init__(self, model: Model, human: Human | None, toolbox: Toolbox, decisions: Mapping[str, Decision]) -> None:
        self._model = model
        self._human = human
        self._toolbox = toolbox
        self._decisions = decisions

    def ask(self, request: Ask) -> Chunks:
        """The model's reply to `request`."""
        return self._model.reply(request)

    async def call(self, action: AgentAction) -> Observation:
        """What came of `action`; never raises for what a tool does."""
        return await self._toolbox.run(action)

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Why a person must be asked before this action runs; empty if none need be."""
        return self._toolbox.needs_human(action, begun=begun)

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """A person's decision, or `None` if there is none yet."""
        decision = self._decisions.get(action.id)
        if decision is not None or self._human is None:
            return decision
        answer = self._human(action, problem)
        return await answer if inspect.isawaitable(answer) else answer

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Take note of an observation, also of a recorded one."""
        self._toolbox.remember(action, observation)
