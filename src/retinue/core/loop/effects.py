"""The effects of a run in the caller's own process."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ..._internal.concurrency import run_in_thread
from ..._internal.containment import await_isolated, describe_error
from ...errors import UsageError
from ..prompt import Ask
from ..protocols import Chunks, Model
from ..run_context import current_run
from ..tools.toolbox import Toolbox
from ..values import AgentAction, Decision

logger = logging.getLogger(__name__)
_TRIES = 4  # of a person to edit an input so that it fits
Human = Callable[[AgentAction, str], Awaitable[Decision | None] | Decision | None]


class LibraryEffects:
    """Asks `model`, and takes decisions from those passed in or else from `human`. The tools are those of `toolbox`."""

    __slots__ = ("_decisions", "_human", "_model", "toolbox")

    def __init__(self, model: Model, human: Human | None, toolbox: Toolbox, decisions: Mapping[str, Decision]) -> None:
        self._human = human
        self.toolbox = toolbox
        self._decisions = decisions
        self._model = model

    def ask(self, request: Ask) -> Chunks:
        """Stream the model's reply to `request`."""
        here = current_run()
        if here.watch is not None:
            here.watch(here.run, request)
        return self._model.reply(request)

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """Return a person's decision, or `None` if it is pending. Raises `UsageError` if `human` fails.

        A decision to edit that does not fit the tool is none: `human` is asked again and told why, or it is pending.
        """
        decision = self._decisions.get(action.id)
        begins = None if decision is None else decision.lets(action)
        if begins is not None and self.toolbox.has_news(begins):  # the decision predates that
            decision = None
        asked = problem
        for _ in range(_TRIES):
            wrong = "" if decision is None else self.toolbox.edit_problem(action, decision)
            if wrong:
                logger.warning("a decision on %s does not count: %s", action.id, wrong)
                decision, asked = None, f"{problem} ({wrong})"
            if decision is not None or self._human is None:
                return decision
            decision = await self._ask_human(self._human, action, asked)
            if decision is None or not self.toolbox.edit_problem(action, decision):
                return decision
        return None

    async def _ask_human(self, human: Human, action: AgentAction, problem: str) -> Decision | None:
        try:
            decision = await await_isolated(_call_human(human, action, problem))
        except Exception as error:
            raise UsageError(f"human failed when asked about {action.tool}: {describe_error(error)}") from error
        if not isinstance(decision, Decision | None):
            raise UsageError(f"human returned a {type(decision).__name__}; want a Decision, or None while pending")
        return decision


async def _call_human(human: Human, action: AgentAction, problem: str) -> Decision | None:
    """Call `human`, in a thread if it is not async."""
    asked = human if inspect.iscoroutinefunction(human) else partial(run_in_thread, human)
    answer = await asked(action, problem)
    return await answer if inspect.isawaitable(answer) else answer
