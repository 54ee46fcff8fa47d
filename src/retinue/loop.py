"""The one loop: decide, act, observe, until an answer or a budget ends it.

    strategy ── Ask ──▶ loop ──▶ model ──▶ Replied ──┐
       ▲     ── Act ──▶ loop ──▶ tools ──▶ Observed ─┤
       └─────────────── send(what came back) ◀───────┘

The loop yields events; a run is nothing else than their log. Given the log of a former drive, it
replays it: recorded effects return their recorded results, and the run goes on where the log ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from .acting import Turn
from .budgets import Budget, Deadline, Interrupted, Meter
from .errors import LogMismatch, RetinueError
from .events import Asked, Delta, Event, Finished, Paused, Replied, Resumed, Retried, Started, Stopped
from .ports import Act, Consult, Effects, Flow, Request, Retry, Sent
from .prompt import Ask, Known
from .recording import Recording
from .schema import AgentFinish, Reply, StopReason

Events = AsyncGenerator[Event | Delta, None]


async def drive(
    flow: Flow, effects: Effects, started: Started, budget: Budget, deadline: Deadline, log: Sequence[Event] = ()
) -> Events:
    """Drive `flow` to its end and yield the events that `log` does not have yet.

    The last event is `Finished` or `Stopped`, also when the run is cancelled, its time is up or the
    model fails. Raises `LogMismatch` if `log` was not recorded by such a flow.
    """
    run = _Drive(flow, effects, Meter(budget), deadline, Recording(log))
    try:
        async with aclosing(run.events(started)) as events:
            async for event in events:
                yield event
    except Interrupted as end:
        yield Stopped(end.reason)
    except asyncio.CancelledError:
        yield Stopped(StopReason.CANCELLED)
        raise
    except LogMismatch:
        raise
    except RetinueError as error:
        yield Stopped(StopReason.ERROR, str(error))
    finally:
        flow.close()


class _Drive:
    """The state of one drive; all of it is thrown away at the end, the log remains."""

    def __init__(self, flow: Flow, effects: Effects, meter: Meter, deadline: Deadline, log: Recording) -> None:
        self._flow = flow
        self._effects = effects
        self._meter = meter
        self._deadline = deadline
        self._log = log
        self._prompts: Known[int] = Known()
        self._prompt_count = 0
        self._consulted = 0
        self._sent: Sent | None = None

    async def events(self, started: Started) -> Events:
        if not self._log.expect(started):
            yield started
        seconds = self._meter.budget.seconds
        self._deadline.start(None if seconds is None else max(0.0, seconds - self._log.seconds))
        while True:
            try:
                request = next(self._flow) if self._sent is None else self._flow.send(self._sent)
            except StopIteration as stop:
                yield _ending(stop.value)
                return
            if isinstance(request, Ask) and (reason := self._meter.exceeded(aside=request.aside)):
                yield Stopped(reason)
                return
            async with aclosing(self._do(request)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Stopped):
                        return

    def _do(self, request: Request) -> Events:
        match request:
            case Ask():
                return self._ask(request)
            case Act():
                return self._act(request)
            case Consult():
                return self._consult(request)

    async def _ask(self, request: Ask) -> Events:
        closing = request.closing if self._meter.last_step and not request.aside else None
        if closing is not None:
            request = replace(closing, problem=request.problem)
        asked = self._asked(request, closing is not None)
        if not self._log.expect(asked):
            yield asked
        self._meter.add(asked)
        replied = next((event for event in self._log.take(Replied, Retried) if isinstance(event, Replied)), None)
        if replied is None:
            async with aclosing(self._reply(request, asked)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Replied):
                        replied = event
        assert replied is not None, "a model's reply ends with a Reply"
        self._meter.add(replied)
        self._sent = replied.reply

    def _asked(self, request: Ask, closing: bool) -> Asked:
        number, new = self._prompts.extend(request.prompt)
        if number is None:
            number, self._prompt_count = self._prompt_count, self._prompt_count + 1
        self._prompts.keep(request.prompt, number)
        step = self._meter.steps + (not request.aside)
        return Asked(step, number, new, closing, request.problem, request.aside)

    async def _reply(self, request: Ask, asked: Asked) -> Events:
        if (left := self._meter.tokens_left) is not None:
            request = replace(request, max_tokens=min(left, request.max_tokens or left))
        clock = asyncio.get_running_loop().time
        began = clock()
        first = 0.0
        async with aclosing(self._effects.ask(request)) as chunks:
            while True:
                chunk = await self._deadline.wait(anext(chunks))
                match chunk:
                    case Delta():
                        first = first or clock() - began
                        yield chunk
                    case Retry():
                        yield Retried(asked.step, chunk.problem, chunk.seconds)
                    case Reply():
                        took = clock() - began
                        reply = replace(chunk, closing=asked.closing, seconds=took, first_token_seconds=first or took)
                        yield Replied(asked.step, reply)
                        return

    async def _act(self, request: Act) -> Events:
        turn = Turn(self._meter.steps, request.actions, self._effects, self._deadline, self._log)
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event
        self._sent = turn.observations

    async def _consult(self, request: Consult) -> Events:
        step = self._meter.steps
        self._consulted += 1
        action = replace(request.action, id=f"consult_{self._consulted}")
        recorded = list(self._log.take(Paused, Resumed))
        decision = next((event.decision for event in recorded if isinstance(event, Resumed)), None)
        if not recorded:
            yield Paused(step, action, request.problem)
        if decision is None:
            decision = await self._deadline.wait(self._effects.consult(action, request.problem))
            if decision is None:
                yield Stopped(StopReason.AWAITING_HUMAN, f"no person has decided on {action.tool} ({action.id})")
                return
            yield Resumed(step, action.id, decision)
        self._sent = decision


def _ending(finish: AgentFinish) -> Finished | Stopped:
    if finish.reason is StopReason.ANSWER:
        return Finished(finish.output, finish.return_values)
    return Stopped(finish.reason, finish.output)
