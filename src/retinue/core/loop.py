"""The one loop: decide, act, observe, until an answer or a budget ends it.

    strategy ── Ask ──▶ loop ──▶ model ──▶ Replied ──┐
       ▲     ── Act ──▶ loop ──▶ tools ──▶ Observed ─┤
       └─────────────── send(what came back) ◀───────┘

The loop tells events; a run is nothing else than their log. What it does to the world, and what depends on the clock,
goes through its effects. So a recorded run is driven again with effects that answer from its log (`replay.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial

from .._internal.containment import call_contained, describe_error, is_own_error
from ..errors import LogMismatch, ModelError, RetinueError, StrategyFailed, WindowExceeded
from .budgets import Budget, Deadline, Interrupted, Meter
from .context_window import ROOM, Window
from .event_stream import told
from .events import Asked, Delta, Event, Finished, Paused, Replied, Resumed, Retried, Started, Stopped, stopped_by
from .flow import advance
from .prompt import Ask, Prompt, PromptCache
from .protocols import Act, Effects, Flow, HumanRequest, Request, Retry, Sent
from .tool_turn import ToolTurn
from .values import AgentFinish, Decision, Message, Observation, Reply, StopReason

logger = logging.getLogger(__name__)
Events = AsyncGenerator[Event | Delta, None]
FORCED = "Agent stopped due to iteration limit or time limit."  # LangChain's words


def drive(flow: Flow, effects: Effects, started: Started, budget: Budget, deadline: Deadline) -> Events:
    """Drive `flow` to its end; the events that `effects` tell.

    The last event is `Finished` or `Stopped`, also when the run is cancelled, its time is up, or the model or the flow
    fails. Raises after `Stopped` the error of a model that never replied, and `LogMismatch` as the effects do.
    """
    driven = _Drive(flow, effects, Meter(budget), deadline, Window(started.abilities.window))
    return told(partial(driven.run, started))


class _Drive:
    """The state of one drive; all of it is thrown away at the end, the log remains."""

    def __init__(self, flow: Flow, effects: Effects, meter: Meter, deadline: Deadline, window: Window) -> None:
        self._flow = flow
        self._effects = effects
        self._meter = meter
        self._deadline = deadline
        self._window = window
        self._prompts: PromptCache[int] = PromptCache()
        self._prompt_count = 0
        self._consulted = 0
        self._acted = 0  # actions of this step so far
        self._limit: StopReason | None = None  # because of which the closing question was asked
        self._best = ""
        self._shown = ""  # of the answer in the last reply

    async def run(self, started: Started) -> None:
        """All of it, to the event that ends it."""
        sent: Sent | Finished | Stopped | None = None
        try:
            await self._effects.tell(started)
            seconds = self._meter.budget.seconds
            self._deadline.start(None if seconds is None else max(0.0, seconds - self._effects.elapsed))
            while not isinstance(sent, Finished | Stopped):
                request = self._next(sent)
                sent = self._ending(request) if isinstance(request, AgentFinish) else await self._do(request)
            await self._effects.tell(sent)
        except asyncio.CancelledError:
            await self._effects.tell(self._stopped(StopReason.CANCELLED))
            raise
        except LogMismatch:
            raise
        except Exception as error:
            await self._effects.tell(self._stopped_by(error))
            if isinstance(error, ModelError) and sent is None:  # nothing has ever come back
                raise
        finally:
            self._deadline.stop()
            with suppress(Exception):  # the run is over, whatever the strategy makes of that
                call_contained(self._flow.close)

    def _next(self, sent: Sent | None) -> Request | AgentFinish:
        """What the strategy wants next, or what it came to. Raises `StrategyFailed`."""
        try:
            return call_contained(advance, self._flow, sent)
        except Exception as error:
            if is_own_error(error):
                raise
            logger.error("the strategy failed: %s", describe_error(error), exc_info=error)
            raise StrategyFailed(f"the strategy failed: {describe_error(error)}") from error

    async def _do(self, request: Request) -> Sent | Finished | Stopped:
        """What comes back, or the end of the run."""
        match request:
            case Ask():
                self._shown = ""
                self._acted = self._acted if request.aside else 0
                return await self._ask(request)
            case Act():
                self._shown = ""
                return await self._act(request)
            case HumanRequest():
                return await self._consult(request)
        raise StrategyFailed(f"the strategy asked for a {type(request).__name__}; want Ask, Act or HumanRequest")

    def _stopped(self, reason: StopReason, detail: str = "") -> Stopped:
        """The end, with the best answer so far."""
        if reason is StopReason.TOKEN_BUDGET_EXCEEDED:
            detail = self._meter.scarcest
        return Stopped(reason, detail, best=self._best, partial=self._shown)

    def _stopped_by(self, error: Exception) -> Stopped:
        if isinstance(error, Interrupted):
            return self._stopped(error.reason)
        if isinstance(error, RetinueError):
            return stopped_by(error, self._best, self._shown)
        logger.error("the run failed: %s", describe_error(error), exc_info=error)
        return replace(self._stopped(StopReason.ERROR, describe_error(error)), code="server_error")

    def _refusal(self, request: Ask) -> StopReason | None:
        """Why the model may not be asked this, if so."""
        if request.aside:
            return self._meter.exceeded(aside=True)
        answers = self._meter.budget.early_stopping_method == "generate" and request.closing and not self._limit
        if self._meter.stagnated and not answers:
            return StopReason.STAGNATED
        return self._meter.exceeded()

    def _ending(self, finish: AgentFinish) -> Finished | Stopped:
        if finish.reason is StopReason.ANSWER and self._limit is StopReason.STAGNATED:
            return Stopped(StopReason.STAGNATED, "its last turns brought nothing new", finish.output)
        if finish.reason is StopReason.ANSWER:
            return Finished(finish.output, finish.return_values)
        if finish.reason is StopReason.MAX_ITERATION_EXCEEDED and self._limit:
            return self._stopped(self._limit)
        problem = finish.return_values.get("problem")
        if problem is None:
            return self._stopped(finish.reason, finish.output)
        return Stopped(finish.reason, str(problem), finish.output)

    # ── asking the model ─────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: Ask) -> Reply | Stopped:
        if reason := self._refusal(request):
            return self._stopped(reason, FORCED)
        closing = self._closing(request)
        if closing is not None:
            request = replace(closing, problem=request.problem)
        step = self._meter.steps + (not request.aside)
        refused: WindowExceeded | None = None
        while True:
            fitted, shortened = self._fitted(request, again=refused is not None)
            if refused and not shortened:
                raise refused
            number, new = self._numbered(fitted)
            asked = Asked(step, number, new, closing is not None, request.problem, request.aside, shortened)
            await self._effects.tell(asked)
            self._meter.add(asked)
            try:
                sent = request if fitted is request.prompt else replace(request, prompt=fitted)
                replied = await self._reply(sent, asked)
            except WindowExceeded as error:
                refused = error
            else:
                self._meter.add(replied)
                self._window.learn(fitted, replied.reply)
                return replied.reply

    def _closing(self, request: Ask) -> Ask | None:
        """What to ask instead, if the answer must come now."""
        if request.closing is None or request.aside:
            return None
        closes = self._meter.budget.early_stopping_method == "generate"
        self._limit = self._effects.limit(self._meter.nearest(self._deadline.left), closes=closes)
        return request.closing() if self._limit else None

    def _fitted(self, request: Ask, *, again: bool) -> tuple[Prompt, int]:
        """The prompt as it is sent, and the size to which it was shortened, 0 if it was not.

        `again`: the engine refused it as it was.
        """
        fitted, window = self._window.fit(request.prompt), self._window
        now = int(ROOM * window.size(fitted)) if again else window.target(fitted, request.max_tokens)
        characters = self._effects.room(now)
        if characters and self._window.shorten(request.prompt, characters):
            return self._window.fit(request.prompt), characters
        return fitted, 0

    def _numbered(self, prompt: Prompt) -> tuple[int, tuple[Message, ...]]:
        """The prompt's number in the log, and the messages in it that the log does not have yet."""
        number, new = self._prompts.extend(prompt)
        if number is None:
            number, self._prompt_count = self._prompt_count, self._prompt_count + 1
        self._prompts.keep(prompt, number)
        return number, new

    async def _reply(self, request: Ask, asked: Asked) -> Replied:
        if (left := self._meter.tokens_left) is not None:
            request = replace(request, max_tokens=min(left, request.max_tokens or left), tokens_left=left)
        clock = asyncio.get_running_loop().time
        began = clock()
        first = 0.0
        said = ""
        async with aclosing(self._effects.ask(request)) as chunks:
            while not isinstance(chunk := await self._deadline.wait(anext(chunks, None)), Reply):
                if chunk is None:
                    raise ModelError("the model ended without a reply")
                if isinstance(chunk, Retry):
                    said = ""
                    await self._effects.tell(Retried(asked.step, chunk.problem, chunk.seconds))
                    continue
                first = first or clock() - began
                if request.answer is not None:
                    said += chunk.text
                    chunk = self._answering(chunk, request.answer(said))
                await self._effects.tell(chunk)
            took = chunk.seconds or clock() - began
            first = chunk.first_token_seconds or first or took
            reply = Reply(chunk.text, chunk.usage, chunk.finish, asked.closing, took, first, chunk.calls)
            replied = Replied(asked.step, reply)
            await self._effects.tell(replied)
        return replied

    def _answering(self, chunk: Delta, answer: str) -> Delta:
        """`chunk` with what is new in the `answer` so far; of a reply begun anew, what goes beyond the former."""
        shown = self._shown
        if len(answer) <= len(shown) or not answer.startswith(shown):
            return chunk
        self._shown = answer
        return Delta(chunk.text, answer[len(shown) :])

    # ── acting, and consulting a person ──────────────────────────────────────────────────────────

    async def _act(self, request: Act) -> tuple[Observation, ...] | Finished | Stopped:
        self._best = request.answer or self._best
        turn = ToolTurn(self._meter.steps, self._acted, request.actions, self._effects, self._deadline, self._warning)
        observations = await turn.observe()
        if isinstance(observations, Stopped):
            return self._stopped(observations.reason, observations.detail)
        self._acted += len(request.actions)
        self._meter.saw(observations)
        if len(observations) == 1 and observations[0].direct:
            return Finished(observations[0].text, {"output": observations[0].text})
        return observations

    def _warning(self) -> str:
        return self._meter.warning(self._deadline.left)

    async def _consult(self, request: HumanRequest) -> Decision | Stopped:
        self._consulted += 1
        action = replace(request.action, id=f"consult_{self._consulted}")
        await self._effects.tell(Paused(self._meter.steps, action, request.problem))
        decision = await self._deadline.wait(self._effects.consult(action, request.problem))
        if decision is None:
            return self._stopped(StopReason.AWAITING_HUMAN, f"no person has decided on {action.tool} ({action.id})")
        await self._effects.tell(Resumed(self._meter.steps, action.id, decision))
        return decision
