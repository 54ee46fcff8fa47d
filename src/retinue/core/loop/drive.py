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
from collections import deque
from collections.abc import Callable, Coroutine, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from ..._internal.containment import call_contained, describe_error, is_own_error
from ..._internal.foreign_text import make_well_formed
from ...errors import LogMismatch, ModelError, RetinueError, StrategyFailed, WindowExceeded
from ..budgets import Meter
from ..events import (
    ENDINGS,
    Asked,
    Delta,
    Finished,
    Paused,
    Point,
    Replied,
    Reported,
    Resumed,
    Retried,
    Started,
    Stopped,
    make_stopped,
)
from ..prices import FREE, Price
from ..prompt import Ask
from ..protocols import Act, Begin, Chunks, Effects, Flow, HumanRequest, Refusal, Request, Retry, Sent, advance
from ..run_context import current_run
from ..run_result import RESTING
from ..tools.long_results import READ_RESULT
from ..values import CUT_SHORT, UNUSED, AgentFinish, Decision, Observation, Reply, StopReason, Usage
from .compaction import Context, Window
from .compactor import Compactor
from .deadline import Deadline, Interrupted
from .judging import ASKS, TRIES, Halt, Judges, withhold_reply
from .sent_prompts import SentPrompt, SentPrompts
from .tool_turn import ToolTurn

logger = logging.getLogger(__name__)
_HOLD: frozenset[Point] = frozenset({"after_model", "before_answer"})  # who judges there must be first to see it
FORCED = "Agent stopped due to iteration limit or time limit."  # LangChain's wording


def drive(  # noqa: PLR0913 -- what a run needs
    begin: Begin,
    effects: Effects,
    started: Started,
    meter: Meter,
    deadline: Deadline,
    price: Price = FREE,
    compactor: Compactor | None = None,
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return what drives the flow of `begin` to its end, emitting events through `effects`. `price` is the model's,
    `meter` has the run's budget, and `compactor` makes room in its prompts. The last event is
    `Finished` or `Stopped`, even if the run is cancelled or times out, or the model or strategy fails. After `Stopped`,
    raises the error of a model that never replied. Raises `LogMismatch` as the effects do, and `UsageError` as `begin`
    does."""
    begun, flow = begin(started)
    compactor = compactor or Compactor(Context(), effects, meter, deadline, Window(started.abilities.window))
    return partial(_Drive(flow, effects, meter, deadline, compactor, price, begin, effects.points).run, begun)


@dataclass(slots=True)
class _Drive:
    """The state of one drive; it is discarded at the end, the log remains."""

    flow: Flow
    effects: Effects
    meter: Meter
    deadline: Deadline
    compactor: Compactor
    price: Price
    begin: Begin
    points: Set[Point]  # at which hooks judge
    judges: Judges = field(init=False)
    opens: bool = False  # whether the next request is the first, and there is no earlier conversation
    model: str = ""  # that the run fell to, if the first gave way
    prompts: SentPrompts = field(default_factory=SentPrompts)
    constrains: bool = False
    acted: int = 0  # actions so far in this step
    refused: int = 0  # answers that hooks blocked
    seen: list[str] = field(default_factory=list)  # what tools gave, for an answer that takes the place of such a one
    limit: StopReason | None = None  # the reason for the closing question
    heard: int = 0  # characters of the reply that is streamed
    shown: str = ""  # the text of an answer in them
    cut: Usage = UNUSED  # what a reply used that was cut off
    best: str = ""  # answer so far

    async def run(self, started: Started) -> None:
        """Drive the whole run up to its final event."""
        sent: Sent | Finished | Stopped | None = None
        self.judges = Judges(self.effects, self.deadline, self.meter)
        reports = current_run().progress.reports
        try:
            started = await self._start(started)
            self.opens, self.constrains = not started.history, started.abilities.constrains
            started = await self._recall_conversation(started)
            while not isinstance(sent, ENDINGS):
                sent = await self._go_on(self._advance_strategy(sent), started, reports)
            await self._tell_end(sent)
        except asyncio.CancelledError:
            await self._tell_end(replace(self._make_stop(StopReason.CANCELLED), usage=self.cut))
            raise
        except LogMismatch:
            raise
        except Exception as error:
            await self._tell_end(replace(self._make_stop_by(error), usage=self.cut))
            if isinstance(error, ModelError) and sent is None:  # the model has never replied
                raise
        finally:
            self.deadline.stop()
            self._close_flow()

    async def _go_on(
        self, request: Request | AgentFinish, started: Started, reports: deque[Reported]
    ) -> Sent | Finished | Stopped | None:
        """Serve a request, or end the run. Return what the strategy is sent, or the end of the run."""
        if isinstance(request, AgentFinish):
            return await self._end(request, started)
        sent = await self._serve(request)
        while reports:  # not between a verdict and what follows from it
            await self.effects.tell(reports.popleft())
        if isinstance(sent, Finished):  # a tool's result, directly
            return await self._end(AgentFinish(sent.return_values), started)
        return sent

    async def _start(self, started: Started) -> Started:
        """Tell the first event, as hooks leave it. Raises `Halt`."""
        seconds = self.meter.budget.seconds
        if "before_run" not in self.points:
            await self.effects.tell(started)
            self.deadline.start(None if seconds is None else max(0.0, seconds - self.effects.elapsed))
            return started
        self.deadline.start(None if seconds is None else max(0.0, seconds - self.effects.elapsed))
        found = await self.judges.look("before_run", started, 0)
        changed, self.flow = self.begin(found.event) if found.event != started else (started, self.flow)
        await self.effects.tell(changed)
        left, blocked = await self.judges.settle(found)
        if blocked:
            raise Halt(Stopped(StopReason.BLOCKED, blocked))
        if left != changed:  # a person edited it, as the log says later
            _, self.flow = self.begin(left)
        return cast(Started, left)

    async def _recall_conversation(self, started: Started) -> Started:
        """Return the first event with what the strategy is given of the earlier conversation."""
        self.compactor.reads_on = not self.constrains
        recalled = await self.compactor.begin(started)
        if recalled is not started:
            self._close_flow()
            _, self.flow = self.begin(recalled)
        return recalled

    def _advance_strategy(self, sent: Sent | None) -> Request | AgentFinish:
        """Return the strategy's next request or its result. Raises `StrategyFailed`."""
        try:
            return call_contained(advance, self.flow, sent)
        except Exception as error:
            if is_own_error(error):
                raise
            logger.error("the strategy failed: %s", describe_error(error), exc_info=error)
            raise StrategyFailed(f"the strategy failed: {describe_error(error)}") from error

    def _serve(self, request: Request) -> Coroutine[Any, Any, Sent | Finished | Stopped]:
        """Return the coroutine that serves a request; it gives what the strategy is sent, or the end of the run."""
        match request:
            case Ask():
                self.shown = ""
                self.acted = self.acted if request.aside else 0
                return self._ask(request)
            case Act():
                self.shown = ""
                return self._act(request)
            case HumanRequest():
                return self._consult(request)
        raise StrategyFailed(f"the strategy yielded a {type(request).__name__}; want Ask, Act or HumanRequest")

    # ── how it ends ──────────────────────────────────────────────────────────────────────────────

    def _make_stop(self, reason: StopReason, detail: str = "") -> Stopped:
        """Return the final event, with the best answer so far."""
        spent = self.meter.describe_limit(reason)
        if not detail or reason in (StopReason.TOKEN_BUDGET_EXCEEDED, StopReason.COST_BUDGET_EXCEEDED):
            detail = spent
        return Stopped(reason, detail, best=self.best, partial=self.shown)

    async def _end(self, finish: AgentFinish, started: Started) -> Finished | Stopped | None:
        """Return the final event, or `None` if the question is asked again, since a hook blocks the answer."""
        if "before_answer" not in self.points or not finish.output:
            return self._make_ending(finish)
        given = Finished(finish.output, finish.return_values)
        answer, blocked = await self.judges.judge("before_answer", given, self.meter.steps)
        if not blocked:
            return self._make_ending(replace(finish, return_values=answer.return_values))
        if finish.reason is not StopReason.ANSWER or self.limit or self.refused == TRIES:
            return Stopped(StopReason.BLOCKED, blocked)
        self.refused += 1
        self._close_flow()
        _, self.flow = self.begin(started, Refusal(answer.answer, blocked, tuple(self.seen)))
        return None

    async def _tell_end(self, end: Finished | Stopped) -> None:
        """Tell the final event. Where hooks judge answers, it has no attempt that they have not seen."""
        if isinstance(end, Stopped) and "before_answer" in self.points:
            end = replace(end, best="", partial="")
        rests = isinstance(end, Stopped) and end.reason in RESTING
        if not rests and (left := self.effects.helpers.at_work):
            said = f"cancelled helpers that were at work in the background: {', '.join(left)}"
            await self.effects.tell(Reported(self.meter.steps, said))
        if "after_run" in self.points and not rests:
            await self.effects.judge("after_run", end, self.meter.steps)
        await self.effects.tell(end)

    def _close_flow(self) -> None:
        with suppress(Exception):  # it is over, whatever the strategy does
            call_contained(self.flow.close)

    def _make_stop_by(self, error: Exception) -> Stopped:
        if isinstance(error, Halt):
            return replace(error.end, best=self.best)
        if isinstance(error, Interrupted):
            return self._make_stop(error.reason)
        if isinstance(error, RetinueError):
            return make_stopped(error, self.best, self.shown)
        logger.error("the run failed: %s", describe_error(error), exc_info=error)
        return replace(self._make_stop(StopReason.ERROR, describe_error(error)), code="server_error")

    def _make_ending(self, finish: AgentFinish) -> Finished | Stopped:
        """Return the final event. Only an ending that is listed here has an answer, whatever a strategy returns with
        it: what it came to until then is the best attempt."""
        reason, said = finish.reason, finish.return_values
        if reason is StopReason.ANSWER and self.limit is StopReason.STAGNATED:
            return Stopped(StopReason.STAGNATED, "its last turns brought nothing new", finish.output)
        if reason is StopReason.ANSWER:
            return Finished(finish.output, said)
        if reason is StopReason.MAX_ITERATION_EXCEEDED and self.limit:
            return self._make_stop(self.limit)
        problem = said.get("problem")
        if reason is StopReason.UNREADABLE_REPLY:
            logger.warning("the model's replies could not be read: %s", problem or "the last has no answer")
        if problem is None:
            return self._make_stop(reason, finish.output)
        if reason in CUT_SHORT.values() or reason is StopReason.INVALID_ANSWER:
            return Stopped(reason, str(problem), finish.output)
        best = str(said.get("best", finish.output or self.best))
        return Stopped(reason, str(problem), best=best, partial=self.shown, code=str(said.get("code", "")))

    # ── asking the model ─────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: Ask) -> Reply | Stopped:
        if refusal := self._find_refusal(request):
            return self._make_stop(refusal, FORCED)
        closing = self._find_closing(request)
        if closing is not None:
            request = replace(closing, problem=request.problem)
        step = self.meter.steps + (not request.aside)
        if not request.aside:
            self.compactor.reads_on = bool(request.tools) or not self.constrains
        sent, too_long = self.prompts.take(request.prompt), None
        while True:
            fits = await self.compactor.fit(sent, request.max_tokens, step, refused=too_long is not None)
            if too_long and not fits:
                raise too_long
            if fits and (refusal := self.meter.find_exceeded_limit(aside=True)):  # by the summary
                return self._make_stop(refusal, FORCED)
            asked = await self._tell_request(request, sent, step, closing is not None)
            try:
                replied = await self._reply(self._offer_reading(replace(request, prompt=sent.prompt)), asked, sent.size)
            except WindowExceeded as error:
                too_long = error
            else:
                self.meter.add(replied)
                self.compactor.window.learn(sent.size, replied.reply)
                return replied.reply

    async def _tell_request(self, request: Ask, sent: SentPrompt, step: int, closing: bool) -> Asked:
        """Tell a request as hooks leave it. Return it. Raises `Halt`."""
        new = sent.list_new()
        asked = Asked(step, sent.number, new, closing, request.problem, request.aside)
        if "before_model" in self.points and new:
            asked, blocked = await self.judges.judge("before_model", asked, asked.step)
            if blocked:
                raise Halt(Stopped(StopReason.BLOCKED, blocked))
            if asked.messages is not new:
                sent.change_new(asked.messages)
        sent.new = 0
        await self.effects.tell(asked)
        self.meter.add(asked)
        return asked

    def _offer_reading(self, request: Ask) -> Ask:
        """Return a request whose model can read results on, once it was shown a part of one."""
        names = {tool.name for tool in request.tools}
        if not self.compactor.has_hidden or not names or READ_RESULT.name in names or request.tool_choice != "auto":
            return request
        return replace(request, tools=(*request.tools, READ_RESULT))

    def _find_refusal(self, request: Ask) -> StopReason | None:
        """Return why this request is not allowed, if so."""
        if not request.aside and self.meter.stagnated:
            closes = self.meter.budget.early_stopping_method == "generate" and request.closing and not self.limit
            if not closes:
                return StopReason.STAGNATED
        return self.meter.find_exceeded_limit(aside=request.aside)

    def _find_closing(self, request: Ask) -> Ask | None:
        """Return the closing question if the answer must come now."""
        if request.closing is None or request.aside:
            return None
        closes = self.meter.budget.early_stopping_method == "generate"
        self.limit = self.effects.limit(self.meter.find_forcing_limit(self.deadline.left), closes=closes)
        return request.closing() if self.limit else None

    async def _reply(self, request: Ask, asked: Asked, size: int) -> Replied:
        if (left := self.meter.tokens_left) is not None:
            request = replace(request, max_tokens=min(left, request.max_tokens or left), tokens_left=left)
        if self.opens:
            request, self.opens = replace(request, opening=True), False
        if self.model:
            request = replace(request, model=self.model)
        self.heard, sent = 0, not self.deadline.is_over
        chunks = self.effects.ask(request)
        try:
            replied = Replied(asked.step, await self._read(chunks, request, asked, size))
            if not (judged := "after_model" in self.points):
                await self.effects.tell(replied)
        except BaseException as error:
            if self.heard or (sent and isinstance(error, Interrupted | asyncio.CancelledError)):
                self.cut = self._estimate_usage(size, self.heard)
            raise
        finally:
            await chunks.aclose()
        return await self._judge_reply(replied) if judged else replied

    async def _judge_reply(self, replied: Replied) -> Replied:
        """Tell a reply as hooks leave it, and return it. Of one that they block, only what it used is told."""
        try:
            judged, blocked = await self.judges.judge("after_model", replied, replied.step)
        except (Interrupted, asyncio.CancelledError):
            self.cut = replied.reply.usage
            raise
        if not blocked:
            await self.effects.tell(judged)
            return cast(Replied, judged)
        await self.effects.tell(withhold_reply(judged))
        raise Halt(Stopped(StopReason.BLOCKED, blocked))

    async def _read(self, chunks: Chunks, request: Ask, asked: Asked, prompt: int) -> Reply:
        """Tell the pieces of a reply as they arrive, unless a hook may block it, and return the whole."""
        held = not self.points.isdisjoint(_HOLD)
        clock = asyncio.get_running_loop().time
        began, first, said = clock(), 0.0, ""
        while not isinstance(chunk := await self.deadline.wait(anext(chunks, None)), Reply):
            if chunk is None:
                raise ModelError("the model ended without a reply")
            if isinstance(chunk, Retry):
                said = ""
                await self._retry(chunk, prompt, asked)
                continue
            first = first or clock() - began
            self.heard += len(chunk.text) + len(chunk.reasoning)
            said += chunk.text
            if not held:
                chunk = self._add_answer(chunk, request.answer, said)
                await self.effects.tell(chunk)
        took = chunk.seconds or clock() - began
        used = chunk.usage
        if not used.is_possible or not (used.total_tokens or not used.requests):  # the engine does not say, or nonsense
            size = len(chunk.text) + sum(len(str(call.tool_input)) for call in chunk.calls)
            used = self._estimate_usage(prompt, size)
        return replace(
            chunk,
            text=make_well_formed(chunk.text),
            usage=used,
            closing=asked.closing,
            seconds=took,
            first_token_seconds=chunk.first_token_seconds or first or took,
            reasoning=make_well_formed(chunk.reasoning),
        )

    async def _retry(self, retry: Retry, prompt: int, asked: Asked) -> None:
        used = retry.usage
        if self.heard and not used:
            used = self._estimate_usage(prompt, self.heard)
        self.heard = 0
        self.model = retry.model or self.model
        retried = Retried(asked.step, retry.problem, retry.seconds, used, retry.model)
        await self.effects.tell(retried)
        self.meter.add(retried)

    def _estimate_usage(self, prompt: int, characters: int) -> Usage:
        return self.price.priced(self.compactor.window.estimate(prompt, characters))

    def _add_answer(self, chunk: Delta, extract: Callable[[str], str] | None, said: str) -> Delta:
        """Add the new part of the answer to `chunk`, the last of what was `said`; after a restarted reply, only what
        exceeds the text shown."""
        text, shown = make_well_formed(chunk.text), self.shown
        if text is not chunk.text or chunk.reasoning:
            chunk = replace(chunk, text=text, reasoning=make_well_formed(chunk.reasoning))
        answer = shown if extract is None else make_well_formed(extract(said))
        if len(answer) <= len(shown) or not answer.startswith(shown):
            return chunk
        self.shown = answer
        return replace(chunk, answer=answer[len(shown) :])

    # ── acting, and consulting a person ──────────────────────────────────────────────────────────

    async def _act(self, request: Act) -> tuple[Observation, ...] | Finished | Stopped:
        self.best = request.answer or self.best
        turn = ToolTurn(self.meter, self.acted, request.actions, self.effects, self.judges)
        turn.reads_on = self.compactor.reads_on
        observations = await turn.observe()
        if isinstance(observations, Stopped):
            return self._make_stop(observations.reason, observations.detail)
        self.acted += len(request.actions)
        self.meter.count_turn(observations)
        self.prompts.note(request.actions, observations)
        self.compactor.has_hidden |= any(one.size for one in observations)
        if "before_answer" in self.points:
            self.seen += [one.text for one in observations if one.outcome == "result"]
        if len(observations) == 1 and observations[0].direct:
            return Finished(observations[0].text, {"output": observations[0].text})
        return observations

    async def _consult(self, request: HumanRequest) -> Decision | Stopped:
        self.judges.asked += 1
        action = replace(request.action, id=f"{ASKS}{self.judges.asked}")
        await self.effects.tell(Paused(self.meter.steps, action, request.problem))
        decision = await self.deadline.wait(self.effects.consult(action, request.problem))
        if decision is None:
            return self._make_stop(StopReason.AWAITING_HUMAN, f"no person has decided on {action.tool} ({action.id})")
        await self.effects.tell(Resumed(self.meter.steps, action.id, decision))
        return decision
