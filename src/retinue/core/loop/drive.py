"""The one loop: decide, act, observe, until an answer or a budget ends it.

    strategy ── Ask ──▶ loop ──▶ model ──▶ Replied ──┐
       ▲     ── Act ──▶ loop ──▶ tools ──▶ Observed ─┤
       └─────────────── send(what came back) ◀───────┘

The loop emits events, and the run is their log. All I/O, and everything that depends on the clock, goes through
effects. So a recorded run is replayed with effects that answer from its log (`run/recorded_effects.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ..._internal.containment import call_contained, describe_error, is_own_error
from ..._internal.foreign_text import make_well_formed
from ...errors import LogMismatch, ModelError, RetinueError, StrategyFailed, WindowExceeded
from ..budgets import Budget, Meter
from ..events import (
    ENDINGS,
    Asked,
    Delta,
    Finished,
    Paused,
    Replied,
    Resumed,
    Retried,
    Started,
    Stopped,
    make_stopped,
)
from ..prices import FREE, Price
from ..prompt import Ask, Prompt, PromptCache
from ..protocols import Act, Chunks, Effects, Flow, HumanRequest, Request, Retry, Sent, advance
from ..values import CUT_SHORT, UNUSED, AgentFinish, Decision, Message, Observation, Reply, StopReason, Usage
from .context_window import ROOM, Window
from .deadline import Deadline, Interrupted
from .tool_turn import ToolTurn

logger = logging.getLogger(__name__)
FORCED = "Agent stopped due to iteration limit or time limit."  # LangChain's wording


def drive(
    flow: Flow, effects: Effects, started: Started, budget: Budget, deadline: Deadline, price: Price = FREE
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return what drives `flow` to its end, emitting events through `effects`. `price` is the model's.

    The last event is `Finished` or `Stopped`, even if the run is cancelled or times out, or the model or strategy
    fails. After `Stopped`, raises the error of a model that never replied. Raises `LogMismatch` as the effects do.
    """
    driven = _Drive(flow, effects, Meter(budget), deadline, Window(started.abilities.window), price)
    return partial(driven.run, started)


class _Drive:
    """The state of one drive; it is discarded at the end, the log remains."""

    __slots__ = (  # each run that waits has one; likewise in other classes of a run
        "_acted", "_best", "_consulted", "_cut", "_deadline", "_effects", "_flow", "_heard", "_limit",
        "_meter", "_model", "_opens", "_price", "_prompt_count", "_prompts", "_shown", "_window",
    )  # fmt: skip

    def __init__(
        self, flow: Flow, effects: Effects, meter: Meter, deadline: Deadline, window: Window, price: Price
    ) -> None:
        self._flow = flow
        self._effects = effects
        self._meter = meter
        self._deadline = deadline
        self._window = window
        self._price = price
        self._heard = 0  # characters of the reply that is streamed
        self._cut = UNUSED  # what a reply used that was cut off
        self._prompts: PromptCache[int] = PromptCache()
        self._prompt_count = 0
        self._consulted = 0
        self._acted = 0  # actions so far in this step
        self._limit: StopReason | None = None  # the reason for the closing question
        self._model = ""  # that the run fell to, if the first gave way
        self._opens = False  # whether the next request is the first, and there is no earlier conversation
        self._best = ""
        self._shown = ""  # answer text shown from the last reply

    async def run(self, started: Started) -> None:
        """Drive the whole run up to its final event."""
        sent: Sent | Finished | Stopped | None = None
        self._opens = not started.history
        try:
            await self._effects.tell(started)
            seconds = self._meter.budget.seconds
            self._deadline.start(None if seconds is None else max(0.0, seconds - self._effects.elapsed))
            while not isinstance(sent, ENDINGS):
                request = self._advance_strategy(sent)
                sent = self._make_ending(request) if isinstance(request, AgentFinish) else await self._do(request)
            await self._effects.tell(sent)
        except asyncio.CancelledError:
            await self._effects.tell(replace(self._make_stop(StopReason.CANCELLED), usage=self._cut))
            raise
        except LogMismatch:
            raise
        except Exception as error:
            await self._effects.tell(replace(self._make_stop_by(error), usage=self._cut))
            if isinstance(error, ModelError) and sent is None:  # the model has never replied
                raise
        finally:
            self._deadline.stop()
            with suppress(Exception):  # the run is over, whatever the strategy does
                call_contained(self._flow.close)

    def _advance_strategy(self, sent: Sent | None) -> Request | AgentFinish:
        """Return the strategy's next request or its result. Raises `StrategyFailed`."""
        try:
            return call_contained(advance, self._flow, sent)
        except Exception as error:
            if is_own_error(error):
                raise
            logger.error("the strategy failed: %s", describe_error(error), exc_info=error)
            raise StrategyFailed(f"the strategy failed: {describe_error(error)}") from error

    def _do(self, request: Request) -> Coroutine[Any, Any, Sent | Finished | Stopped]:
        """Return the coroutine that serves a request; it gives what the strategy is sent, or the end of the run."""
        match request:
            case Ask():
                self._shown = ""
                self._acted = self._acted if request.aside else 0
                return self._ask(request)
            case Act():
                self._shown = ""
                return self._act(request)
            case HumanRequest():
                return self._consult(request)
        raise StrategyFailed(f"the strategy yielded a {type(request).__name__}; want Ask, Act or HumanRequest")

    def _make_stop(self, reason: StopReason, detail: str = "") -> Stopped:
        """Return the final event, with the best answer so far."""
        spent = self._meter.describe_limit(reason)
        if not detail or reason in (StopReason.TOKEN_BUDGET_EXCEEDED, StopReason.COST_BUDGET_EXCEEDED):
            detail = spent
        return Stopped(reason, detail, best=self._best, partial=self._shown)

    def _make_stop_by(self, error: Exception) -> Stopped:
        if isinstance(error, Interrupted):
            return self._make_stop(error.reason)
        if isinstance(error, RetinueError):
            return make_stopped(error, self._best, self._shown)
        logger.error("the run failed: %s", describe_error(error), exc_info=error)
        return replace(self._make_stop(StopReason.ERROR, describe_error(error)), code="server_error")

    def _find_refusal(self, request: Ask) -> StopReason | None:
        """Return why this request is not allowed, if so."""
        if request.aside:
            return self._meter.find_exceeded_limit(aside=True)
        answers = self._meter.budget.early_stopping_method == "generate" and request.closing and not self._limit
        if self._meter.stagnated and not answers:
            return StopReason.STAGNATED
        return self._meter.find_exceeded_limit()

    def _make_ending(self, finish: AgentFinish) -> Finished | Stopped:
        """Return the final event. Only an ending that is listed here has an answer, whatever a strategy returns with
        it: what it came to until then is the best attempt."""
        if finish.reason is StopReason.ANSWER and self._limit is StopReason.STAGNATED:
            return Stopped(StopReason.STAGNATED, "its last turns brought nothing new", finish.output)
        if finish.reason is StopReason.ANSWER:
            return Finished(finish.output, finish.return_values)
        if finish.reason is StopReason.MAX_ITERATION_EXCEEDED and self._limit:
            return self._make_stop(self._limit)
        problem = finish.return_values.get("problem")
        if finish.reason is StopReason.UNREADABLE_REPLY:
            logger.warning("the model's replies could not be read: %s", problem or "the last has no answer")
        if problem is None:
            return self._make_stop(finish.reason, finish.output)
        if finish.reason in CUT_SHORT.values() or finish.reason is StopReason.INVALID_ANSWER:
            return Stopped(finish.reason, str(problem), finish.output)
        code = str(finish.return_values.get("code", ""))
        best = str(finish.return_values.get("best", finish.output or self._best))
        return Stopped(finish.reason, str(problem), best=best, partial=self._shown, code=code)

    # ── asking the model ─────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: Ask) -> Reply | Stopped:
        if reason := self._find_refusal(request):
            return self._make_stop(reason, FORCED)
        closing = self._find_closing(request)
        if closing is not None:
            request = replace(closing, problem=request.problem)
        step = self._meter.steps + (not request.aside)
        refused: WindowExceeded | None = None
        while True:
            fitted, shortened = self._fit_prompt(request, again=refused is not None)
            if refused and not shortened:
                raise refused
            number, new = self._number_prompt(fitted)
            new = tuple([replace(one, state=None) if one.state else one for one in new])  # each reply has its own
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

    def _find_closing(self, request: Ask) -> Ask | None:
        """Return the closing question if the answer must come now."""
        if request.closing is None or request.aside:
            return None
        closes = self._meter.budget.early_stopping_method == "generate"
        self._limit = self._effects.limit(self._meter.find_forcing_limit(self._deadline.left), closes=closes)
        return request.closing() if self._limit else None

    def _fit_prompt(self, request: Ask, *, again: bool) -> tuple[Prompt, int]:
        """Return the prompt to send and the size it was shortened to (0: not shortened).

        `again`: the engine refused the original as too long.
        """
        fitted, window = self._window.fit(request.prompt), self._window
        now = int(ROOM * window.size(fitted)) if again else window.target(fitted, request.max_tokens)
        characters = self._effects.room(now)
        if characters and self._window.shorten(request.prompt, characters):
            return self._window.fit(request.prompt), characters
        return fitted, 0

    def _number_prompt(self, prompt: Prompt) -> tuple[int, tuple[Message, ...]]:
        """Return the prompt's number in the log and its messages that are not logged yet."""
        number, new = self._prompts.extend(prompt)
        if number is None:
            number, self._prompt_count = self._prompt_count, self._prompt_count + 1
        self._prompts.keep(prompt, number)
        return number, new

    async def _reply(self, request: Ask, asked: Asked) -> Replied:
        if (left := self._meter.tokens_left) is not None:
            request = replace(request, max_tokens=min(left, request.max_tokens or left), tokens_left=left)
        if self._opens:
            request, self._opens = replace(request, opening=True), False
        if self._model:
            request = replace(request, model=self._model)
        self._heard, sent = 0, not self._deadline.is_over
        chunks = self._effects.ask(request)
        try:
            replied = Replied(asked.step, await self._read(chunks, request, asked))
            await self._effects.tell(replied)
        except BaseException as error:
            if self._heard or (sent and isinstance(error, Interrupted | asyncio.CancelledError)):
                self._cut = self._estimate_usage(request.prompt, self._heard)
            raise
        finally:
            await chunks.aclose()
        return replied

    async def _read(self, chunks: Chunks, request: Ask, asked: Asked) -> Reply:
        """Tell the pieces of a reply as they arrive, and return the whole."""
        clock = asyncio.get_running_loop().time
        began = clock()
        first = 0.0
        said = ""
        while not isinstance(chunk := await self._deadline.wait(anext(chunks, None)), Reply):
            if chunk is None:
                raise ModelError("the model ended without a reply")
            if isinstance(chunk, Retry):
                said = ""
                await self._retry(chunk, request, asked)
                continue
            first = first or clock() - began
            self._heard += len(chunk.text) + len(chunk.reasoning)
            said += chunk.text
            chunk = self._add_answer(chunk, request.answer, said)
            await self._effects.tell(chunk)
        took = chunk.seconds or clock() - began
        first = chunk.first_token_seconds or first or took
        usage = self._measure_usage(chunk, request.prompt)
        return replace(
            chunk,
            text=make_well_formed(chunk.text),
            usage=usage,
            closing=asked.closing,
            seconds=took,
            first_token_seconds=first,
            reasoning=make_well_formed(chunk.reasoning),
        )

    async def _retry(self, retry: Retry, request: Ask, asked: Asked) -> None:
        used = retry.usage
        if self._heard and not used:
            used = self._estimate_usage(request.prompt, self._heard)
        self._heard = 0
        self._model = retry.model or self._model
        retried = Retried(asked.step, retry.problem, retry.seconds, used, retry.model)
        await self._effects.tell(retried)
        self._meter.add(retried)

    def _measure_usage(self, reply: Reply, prompt: Prompt) -> Usage:
        """Return what a reply used: about as much as its texts suggest if the engine does not say, or nothing that can
        be."""
        used = reply.usage
        if used.is_possible and (used.total_tokens or not used.requests):
            return used
        return self._estimate_usage(prompt, len(reply.text) + sum(len(str(call.tool_input)) for call in reply.calls))

    def _estimate_usage(self, prompt: Prompt, characters: int) -> Usage:
        return self._price.priced(self._window.estimate(prompt, characters))

    def _add_answer(self, chunk: Delta, extract: Callable[[str], str] | None, said: str) -> Delta:
        """Add the new part of the answer to `chunk`, the last of what was `said`; after a restarted reply, only what
        exceeds the text shown."""
        text, shown = make_well_formed(chunk.text), self._shown
        if text is not chunk.text or chunk.reasoning:
            chunk = replace(chunk, text=text, reasoning=make_well_formed(chunk.reasoning))
        answer = shown if extract is None else make_well_formed(extract(said))
        if len(answer) <= len(shown) or not answer.startswith(shown):
            return chunk
        self._shown = answer
        return replace(chunk, answer=answer[len(shown) :])

    # ── acting, and consulting a person ──────────────────────────────────────────────────────────

    async def _act(self, request: Act) -> tuple[Observation, ...] | Finished | Stopped:
        self._best = request.answer or self._best
        turn = ToolTurn(self._meter, self._acted, request.actions, self._effects, self._deadline)
        observations = await turn.observe()
        if isinstance(observations, Stopped):
            return self._make_stop(observations.reason, observations.detail)
        self._acted += len(request.actions)
        self._meter.count_turn(observations)
        if len(observations) == 1 and observations[0].direct:
            return Finished(observations[0].text, {"output": observations[0].text})
        return observations

    async def _consult(self, request: HumanRequest) -> Decision | Stopped:
        self._consulted += 1
        action = replace(request.action, id=f"consult_{self._consulted}")
        await self._effects.tell(Paused(self._meter.steps, action, request.problem))
        decision = await self._deadline.wait(self._effects.consult(action, request.problem))
        if decision is None:
            return self._make_stop(StopReason.AWAITING_HUMAN, f"no person has decided on {action.tool} ({action.id})")
        await self._effects.tell(Resumed(self._meter.steps, action.id, decision))
        return decision
