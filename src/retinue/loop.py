"""The one loop: decide, act, observe, until an answer or a budget ends it.

    strategy ── Ask ──▶ loop ──▶ model ──▶ Replied ──┐
       ▲     ── Act ──▶ loop ──▶ tools ──▶ Observed ─┤
       └─────────────── send(what came back) ◀───────┘

The loop yields events; a run is nothing else than their log. Given the log of a former drive, it
replays it: recorded effects return their recorded results, and the run goes on where the log ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from .acting import Turn
from .budgets import Budget, Deadline, Interrupted, Meter
from .containment import contained, described, is_told
from .errors import LogMismatch, ModelError, RetinueError, StrategyFailed, WindowExceeded
from .events import Asked, Delta, Event, Finished, Paused, Replied, Resumed, Retried, Started, Stopped, stopped_by
from .ports import Act, Consult, Effects, Flow, Request, Retry, Sent
from .prompt import Ask, Known, Prompt
from .recording import Recording
from .schema import AgentFinish, Message, Reply, StopReason
from .strategies.relaying import advanced
from .window import ROOM, Window

logger = logging.getLogger(__name__)
Events = AsyncGenerator[Event | Delta, None]
FORCED = "Agent stopped due to iteration limit or time limit."  # LangChain's words


def drive(
    flow: Flow, effects: Effects, started: Started, budget: Budget, deadline: Deadline, log: Sequence[Event] = ()
) -> Events:
    """Drive `flow` to its end and yield the events that `log` does not have yet.

    The last event is `Finished` or `Stopped`, also when the run is cancelled, its time is up, or the model or the flow
    fails. Raises `LogMismatch` for another flow's `log`, and after `Stopped` the error of a model that never replied.
    """
    window = Window(started.abilities.window)
    return _Drive(flow, effects, Meter(budget), deadline, Recording(log), window).events(started)


class _Drive:
    """The state of one drive; all of it is thrown away at the end, the log remains."""

    def __init__(
        self, flow: Flow, effects: Effects, meter: Meter, deadline: Deadline, log: Recording, window: Window
    ) -> None:
        self._flow = flow
        self._effects = effects
        self._meter = meter
        self._deadline = deadline
        self._log = log
        self._window = window
        self._prompts: Known[int] = Known()
        self._prompt_count = 0
        self._consulted = 0
        self._acted = 0  # actions of this step so far
        self._limit: StopReason | None = None  # because of which the closing question was asked
        self._best = ""
        self._shown = ""  # of the answer in the last reply
        self._sent: Sent | None = None

    async def events(self, started: Started) -> Events:
        try:
            if not self._log.expect(started):
                yield started
            seconds = self._meter.budget.seconds
            self._deadline.start(None if seconds is None else max(0.0, seconds - self._log.seconds))
            while not isinstance(request := self._next(), AgentFinish):
                async with aclosing(self._do(request)) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, Stopped | Finished):
                            return
            yield self._ending(request)
        except asyncio.CancelledError:
            yield self._stopped(StopReason.CANCELLED)
            raise
        except LogMismatch:
            raise
        except Exception as error:
            yield self._stopped_by(error)
            if isinstance(error, ModelError) and self._sent is None:  # nothing has ever come back
                raise
        finally:
            self._deadline.stop()
            with suppress(Exception):  # the run is over, whatever the strategy makes of that
                contained(self._flow.close)

    def _next(self) -> Request | AgentFinish:
        """What the strategy wants next, or what it came to. Raises `StrategyFailed`."""
        try:
            return contained(advanced, self._flow, self._sent)
        except Exception as error:
            if is_told(error):
                raise
            logger.error("the strategy failed: %s", described(error), exc_info=error)
            raise StrategyFailed(f"the strategy failed: {described(error)}") from error

    def _do(self, request: Request) -> Events:
        match request:
            case Ask():
                self._shown = ""
                self._acted = self._acted if request.aside else 0
                return self._ask(request)
            case Act():
                self._shown = ""
                return self._act(request)
            case Consult():
                return self._consult(request)
        raise StrategyFailed(f"the strategy asked for a {type(request).__name__}; want Ask, Act or Consult")

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
        logger.error("the run failed: %s", described(error), exc_info=error)
        return replace(self._stopped(StopReason.ERROR, described(error)), code="server_error")

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

    async def _ask(self, request: Ask) -> Events:
        if reason := self._refusal(request):
            yield self._stopped(reason, FORCED)
            return
        closing = self._closing(request)
        if closing is not None:
            request = replace(closing, problem=request.problem)
        step = self._meter.steps + (not request.aside)
        replied: Replied | None = None
        refused: WindowExceeded | None = None
        while replied is None:
            fitted, shortened = self._fitted(request, again=refused is not None)
            if refused and not shortened:
                raise refused
            number, new = self._numbered(fitted)
            asked = Asked(step, number, new, closing is not None, request.problem, request.aside, shortened)
            if not self._log.expect(asked):
                yield asked
            self._meter.add(asked)
            replied = next((event for event in self._log.take(Replied, Retried) if isinstance(event, Replied)), None)
            if replied is None and self._log.next is None:
                try:
                    sent = request if fitted is request.prompt else replace(request, prompt=fitted)
                    async with aclosing(self._reply(sent, asked)) as events:
                        async for event in events:
                            if isinstance(event, Replied):
                                replied = event
                            yield event
                except WindowExceeded as error:
                    refused = error
        self._meter.add(replied)
        self._window.learn(fitted, replied.reply)
        self._sent = replied.reply

    def _closing(self, request: Ask) -> Ask | None:
        """What to ask instead, if the answer must come now."""
        if request.closing is None or request.aside:
            return None
        limit = self._meter.nearest(self._deadline.left)
        recorded = self._log.next
        if isinstance(recorded, Asked):  # which limit was near may have been a matter of the clock
            limit = (limit or StopReason.MAX_EXECUTION_TIME_EXCEEDED) if recorded.closing else None
        elif self._meter.budget.early_stopping_method == "force":
            limit = None
        self._limit = limit
        return request.closing() if limit else None

    def _fitted(self, request: Ask, *, again: bool) -> tuple[Prompt, int]:
        """The prompt as it is sent, and the size to which it was shortened, 0 if it was not.

        `again`: the engine refused it as it was.
        """
        fitted, recorded = self._window.fit(request.prompt), self._log.next
        if isinstance(recorded, Asked):
            characters = recorded.shortened
        elif again:
            characters = int(ROOM * self._window.size(fitted))
        else:
            characters = self._window.target(fitted, request.max_tokens)
        if characters and (self._window.shorten(request.prompt, characters) or recorded):
            return self._window.fit(request.prompt), characters
        return fitted, 0

    def _numbered(self, prompt: Prompt) -> tuple[int, tuple[Message, ...]]:
        """The prompt's number in the log, and the messages in it that the log does not have yet."""
        number, new = self._prompts.extend(prompt)
        if number is None:
            number, self._prompt_count = self._prompt_count, self._prompt_count + 1
        self._prompts.keep(prompt, number)
        return number, new

    async def _reply(self, request: Ask, asked: Asked) -> Events:
        if (left := self._meter.tokens_left) is not None:
            request = replace(request, max_tokens=min(left, request.max_tokens or left), tokens_left=left)
        clock = asyncio.get_running_loop().time
        began = clock()
        first = 0.0
        said = ""
        async with aclosing(self._effects.ask(request)) as chunks:
            while True:
                try:
                    chunk = await self._deadline.wait(anext(chunks))
                except StopAsyncIteration:
                    raise ModelError("the model ended without a reply") from None
                match chunk:
                    case Delta():
                        first = first or clock() - began
                        if request.answer is not None:
                            said += chunk.text
                            chunk = self._answering(chunk, request.answer(said))
                        yield chunk
                    case Retry():
                        said = ""
                        yield Retried(asked.step, chunk.problem, chunk.seconds)
                    case Reply():
                        took = clock() - began
                        reply = Reply(
                            chunk.text, chunk.usage, chunk.finish, asked.closing, took, first or took, chunk.calls
                        )
                        yield Replied(asked.step, reply)
                        return

    def _answering(self, chunk: Delta, answer: str) -> Delta:
        """`chunk` with what is new in the `answer` so far; of a reply begun anew, what goes beyond the former."""
        shown = self._shown
        if len(answer) <= len(shown) or not answer.startswith(shown):
            return chunk
        self._shown = answer
        return Delta(chunk.text, answer[len(shown) :])

    # ── acting, and consulting a person ──────────────────────────────────────────────────────────

    async def _act(self, request: Act) -> Events:
        self._best = request.answer or self._best
        turn = Turn(
            self._meter.steps, self._acted, request.actions, self._effects, self._deadline, self._warning, self._log
        )
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield self._stopped(event.reason, event.detail) if isinstance(event, Stopped) else event
        self._acted += len(request.actions)
        observations = turn.observations
        self._meter.saw(observations)
        if len(observations) == 1 == len(request.actions) and observations[0].direct:
            yield Finished(observations[0].text, {"output": observations[0].text})
        self._sent = observations

    def _warning(self) -> str:
        return self._meter.warning(self._deadline.left)

    async def _consult(self, request: Consult) -> Events:
        self._consulted += 1
        action = replace(request.action, id=f"consult_{self._consulted}")
        recorded = list(self._log.take_of({action.id}))
        decision = next((event.decision for event in recorded if isinstance(event, Resumed)), None)
        if not recorded:
            yield Paused(self._meter.steps, action, request.problem)
        if decision is None:
            decision = await self._deadline.wait(self._effects.consult(action, request.problem))
            if decision is None:
                waiting = f"no person has decided on {action.tool} ({action.id})"
                yield self._stopped(StopReason.AWAITING_HUMAN, waiting)
                return
            yield Resumed(self._meter.steps, action.id, decision)
        self._sent = decision
