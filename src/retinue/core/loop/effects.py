"""The effects of a run in the caller's own process."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from ..._internal.concurrency import run_in_thread
from ..._internal.containment import await_isolated, describe_error
from ...errors import UsageError
from ..events import Point
from ..hooks import Hook, Judgeable, Judgement, group_hooks, run_hooks
from ..prompt import Ask
from ..protocols import Chunks, Model
from ..run_context import current_run
from ..tools.toolbox import Toolbox
from ..user_records import make_policy
from ..values import AgentAction, Decision
from .judging import ASKS

logger = logging.getLogger(__name__)
_TRIES = 4  # of a person to edit an input so that it fits
Human = Callable[[AgentAction, str], Awaitable[Decision | None] | Decision | None]


class LibraryEffects:
    """Asks `model`, and takes decisions from those passed in or else from `human`. The tools are those of `toolbox`,
    and `hooks` judge."""

    __slots__ = ("_decisions", "_human", "_model", "hooks", "toolbox")

    def __init__(
        self,
        model: Model,
        human: Human | None,
        toolbox: Toolbox,
        decisions: Mapping[str, Decision],
        hooks: Iterable[Hook] = (),
    ) -> None:
        self.hooks = group_hooks(hooks)
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

    async def judge(self, point: Point, event: Judgeable, step: int) -> Judgement:
        """Return what the hooks at `point` say of `event`."""
        return await run_hooks(self.hooks.get(point, ()), event, step, current_run())

    async def consult(self, action: AgentAction, problem: str, asker: str = "") -> Decision | None:
        """Return a person's decision, or `None` if it is pending. Raises `UsageError` if `human` fails. An edit that
        does not fit the tool is no decision: `human` is asked again and told why, or it is pending. So is a decision
        made before an equal call got an unknown outcome. `asker` is the hook that asks, if one does.

        Nobody is asked about what a person always allows this user, unless an equal call has an unknown outcome."""
        here, doubtful = current_run(), self.toolbox.is_in_doubt(action)
        if action.id.startswith(ASKS):  # what a person is asked beside calls
            return await self._consult_person(action, problem)
        if not doubtful and action.id not in self._decisions:
            for policy in await here.records.policies():
                if policy.covers(action, here.agent, asker):
                    return Decision("approve", policy=policy.id)
        decision = await self._consult_person(action, problem)
        begins = None if decision is None or not decision.always or doubtful else decision.lets(action)
        if decision is not None and begins is not None:
            policy = make_policy(begins, here.agent, asker, decision.always, here.run)
            if not await here.records.keep(policy):
                logger.warning("%s is allowed this time only: the run is for no user", action.id)
        return decision

    async def _consult_person(self, action: AgentAction, problem: str) -> Decision | None:
        decision = self._decisions.get(action.id)
        begins = None if decision is None else decision.lets(action)
        if begins is not None and self.toolbox.has_news(begins):
            decision = None
        asked, tries = problem, 0
        while decision is None or (wrong := self.toolbox.edit_problem(action, decision)):
            if decision is not None:
                logger.warning("a decision on %s does not count: %s", action.id, wrong)
                asked = f"{problem} ({wrong})"
            if self._human is None or tries == _TRIES:
                return None
            decision, tries = await _ask_human(self._human, action, asked), tries + 1
            if decision is None:
                return None
        return decision


async def _ask_human(human: Human, action: AgentAction, problem: str) -> Decision | None:
    """Call `human`, in a thread if it is not async."""

    async def call() -> Decision | None:
        asked = human if inspect.iscoroutinefunction(human) else partial(run_in_thread, human)
        answer = await asked(action, problem)
        return await answer if inspect.isawaitable(answer) else answer

    try:
        decision = await await_isolated(call())
    except Exception as error:
        raise UsageError(f"human failed when asked about {action.tool}: {describe_error(error)}") from error
    if not isinstance(decision, Decision | None):
        raise UsageError(f"human returned a {type(decision).__name__}; want a Decision, or None while pending")
    return decision
