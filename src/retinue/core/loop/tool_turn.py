"""One turn of tool use: get human decisions where required, then run the actions concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..budgets import Budget, Meter
from ..events import Called, Judged, Observed, Paused, Resumed, Stopped, call_of
from ..protocols import Effects
from ..run_context import current_run
from ..tools.delegation import Pending, stop_reason
from ..tools.long_results import cut_result, shorten_result
from ..values import AgentAction, Decision, Observation, StopReason
from .deadline import Interrupted
from .event_stream import with_reports
from .judging import ASKS, Judges, apply_decision, describe_waiting

T = TypeVar("T")
AT_ONCE = 16  # concurrent calls of one reply; the others wait, and so do the records of their intents


class ToolTurn:
    """Runs the actions of one step; `acted` other actions ran before them (a call that was reflected on). The last
    observation carries the warning of `meter` for the model. Agents that are called get equal shares of what it
    leaves. `reads_on` says whether the model can read on in a long result."""

    reads_on = True

    def __init__(
        self, meter: Meter, acted: int, actions: Sequence[AgentAction], effects: Effects, judges: Judges
    ) -> None:
        self._meter = meter
        self._step = step = meter.steps
        self._actions = {
            (call := f"call_{step}_{at}"): AgentAction(action.tool, action.tool_input, action.log, call)
            for at, action in enumerate(actions, acted)
        }
        self._effects = effects
        self._judges, self._deadline = judges, judges.deadline
        self._begun: dict[str, AgentAction] = {}
        self._paused: set[str] = set()
        self._decided: dict[str, Decision] = {}
        self._seen: dict[str, Observation] = {}
        self._pending: list[Pending] = []
        self._asks: dict[str, Judged] = {}  # calls on which hooks ask a person
        self._held: dict[str, Judged] = {}  # calls on whose results they do
        self._answers: dict[str, Decision] = {}  # what people decided on those results
        self._known: set[str] = set()  # calls of which earlier drives logged anything
        self._restore_progress()
        self._cut_off = self._begun.keys() - self._seen.keys() - self._held.keys()  # their outcome is unknown
        for call in self._cut_off:
            effects.restore(self._begun[call], None)

    def _restore_progress(self) -> None:
        """Restore what earlier drives logged about these calls."""
        for event in self._effects.past([*self._actions.values()]):
            self._known.add(call_of(event))
            self._meter.add(event)
            match event:
                case Called(action=begun):  # the decision led to this intent and to no other
                    self._begin(begun)
                    self._paused.discard(begun.id)
                    self._decided.pop(begun.id, None)
                    self._asks.pop(begun.id, None)
                case Judged(point="before_tool", verdict="ask", about=Called(action=action)):
                    self._actions[action.id] = action
                    self._asks[action.id] = event
                case Judged(point="after_tool", verdict="ask", about=Observed(observation=seen)):
                    self._held[seen.call_id] = event
                    self._effects.restore(self._current(seen.call_id), seen)
                case Paused(action=action):
                    self._paused.add(action.id)
                    if action.id in self._begun:  # cut off before; a person's refusal does not settle that
                        self._effects.restore(self._begun[action.id], None)
                    elif action.id in self._actions:  # as hooks changed it
                        self._actions[action.id] = action
                case Resumed(call_id=call_id, decision=decision):
                    (self._decided if call_id in self._actions else self._answers)[call_id] = decision
                case Observed(observation=seen):
                    self._seen[seen.call_id] = seen
                    self._effects.restore(self._current(seen.call_id), seen)

    def _current(self, call: str) -> AgentAction:
        """Return the action as it has begun, possibly edited by a person, or is to begin."""
        return self._begun.get(call) or self._actions[call]

    async def observe(self) -> tuple[Observation, ...] | Stopped:
        """Finish the actions and return their observations in order, or the end of the run if a person's decision or a
        member's run is pending."""
        waiting: list[str] = []
        left = [call for call in self._actions if call not in self._seen]
        for start in range(0, len(left), AT_ONCE):
            waiting += await self._run_group(left[start : start + AT_ONCE])
        if waiting or self._pending:
            said = [self._describe_waiting(call) for call in waiting]
            reason = StopReason.AWAITING_HUMAN if waiting else stop_reason(self._pending)
            return Stopped(reason, "; ".join([*said, *(one.detail for one in self._pending)]))
        for call in self._actions:
            self._effects.recall(self._current(call), self._seen[call])
        return tuple(self._seen[call] for call in self._actions)

    async def _run_group(self, calls: Sequence[str]) -> list[str]:
        """Run actions concurrently; return those that need a pending decision of a person."""
        waiting = [call for call in calls if not await self._clear_call(call)]
        settled = {*self._seen, *self._held, *waiting}
        ready = [self._begun[call] for call in calls if call not in settled]
        started = [self._effects.call(action, self._divide_budget) for action in ready]
        if len(started) == 1:  # no task of its own, which would cost more than the rest of the turn
            await self._await_call(self._reporting(self._deadline.wait(started[0])))
            return [*waiting, *await self._settle_held(calls)]
        running = {asyncio.ensure_future(call) for call in started}
        try:
            self._deadline.check()  # before any of them has begun
            while running:
                first = asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                done, running = await self._reporting(self._deadline.wait(first))
                for task in done:
                    await self._await_call(task)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)
        return [*waiting, *await self._settle_held(calls)]

    def _reporting(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return with_reports(work, current_run().progress, self._effects.tell)

    async def _clear_call(self, call: str) -> bool:
        """Return whether the action is begun or settled; otherwise it waits for a person."""
        if call in self._held:
            return True
        if call not in self._known and "before_tool" in self._judges.points and await self._block_call(call):
            return True
        began = self._current(call)
        if problem := self._find_approval_reason(call):
            if call not in self._paused:
                await self._effects.tell(Paused(self._step, began, problem))
            asker = self._asks[call].hook if call in self._asks else ""
            decision = await self._deadline.wait(self._effects.consult(began, problem, asker))
            if decision is None:
                return False
            self._decided[call] = decision
            await self._effects.tell(Resumed(self._step, call, decision))
        settled = _apply_decision(began, self._decided.get(call))
        if isinstance(settled, Observation):
            self._effects.restore(began, settled)
            await self._record_observation(settled)
        elif self._begun.get(call) != settled or call in self._decided:
            self._begin(settled)
            await self._effects.tell(Called(self._step, settled))
        return True

    async def _block_call(self, call: str) -> bool:
        """Have hooks judge a call. Return whether they block it, which the model is told."""
        found = await self._judges.look("before_tool", Called(self._step, self._actions[call]), self._step)
        self._actions[call] = action = found.event.action
        if (end := found.end) is None:
            return False
        await self._effects.tell(end)
        if end.verdict == "ask":
            self._asks[call] = end
            return False
        refused = Observation(call, f"{action.tool} was not called: {end.reason}", "rejected")
        self._effects.restore(action, refused)
        await self._record_observation(refused)
        return True

    async def _judge_result(self, observation: Observation) -> None:
        """Record an observation as hooks leave it; one on which they ask a person is held until that is settled."""
        try:
            found = await self._judges.look("after_tool", Observed(self._step, observation), self._step)
        except (Interrupted, asyncio.CancelledError):  # the call was made, and the log has to say so
            await self._record_observation(_withhold(observation, "the run ended before hooks had judged it"))
            raise
        seen: Observation = found.event.observation
        if (end := found.end) is None:
            await self._record_observation(seen)
            return
        await self._effects.tell(end)
        if end.verdict == "ask":
            self._held[observation.call_id] = end
            await self._judges.pose(end, f"{ASKS}{observation.call_id}")
            self._paused.add(f"{ASKS}{observation.call_id}")
        else:
            await self._record_observation(_withhold(seen, end.reason))

    async def _settle_held(self, calls: Sequence[str]) -> list[str]:
        """Ask people about the results that hooks leave to them; return the calls on which nobody has decided."""
        waiting = []
        for call in [one for one in calls if one in self._held and one not in self._seen]:
            verdict, question = self._held[call], f"{ASKS}{call}"
            if question not in self._paused:
                await self._judges.pose(verdict, question)
            decision = self._answers.get(question) or await self._judges.ask_person(verdict, question)
            if decision is None:
                waiting.append(call)
                continue
            judged, blocked = apply_decision(verdict, decision)
            seen: Observation = judged.observation
            await self._record_observation(_withhold(seen, blocked) if blocked else seen)
        return waiting

    def _describe_waiting(self, call: str) -> str:
        if call in self._held:
            return describe_waiting(self._held[call])
        one = self._actions[call]
        return f"no person has decided on {one.tool} ({one.id}): {self._find_approval_reason(call)}"

    def _find_approval_reason(self, call: str) -> str:
        if call in self._decided or call in self._seen:
            return ""
        asked = self._effects.must_ask(self._current(call), begun=call in self._cut_off)
        if (hook := self._asks.get(call)) is None:
            return asked
        return "; ".join(filter(None, (f"{hook.hook}: {hook.reason}", asked)))

    def _begin(self, action: AgentAction) -> None:
        """Mark an action as begun; earlier decisions on equal calls do not apply to later ones."""
        self._begun[action.id] = action
        for call in list(self._decided):
            let = self._decided[call].lets(self._current(call))
            if let and let.id != action.id and self._effects.same(let, action):
                del self._decided[call]
                self._paused.discard(call)

    def _divide_budget(self) -> Budget:
        """Return what each call of this turn may use, if it is of a member."""
        return self._meter.divide_rest(len(self._actions), self._deadline.left)

    async def _await_call(self, call: Awaitable[Observation]) -> None:
        """Await a call, and record its observation, or that its member has not ended."""
        try:
            observation = await call
        except Pending as pending:
            self._pending.append(pending)
        else:
            if "after_tool" in self._judges.points:
                await self._judge_result(observation)
            else:
                await self._record_observation(observation)

    async def _record_observation(self, observation: Observation) -> None:
        seen, last = observation, len(self._seen) + 1 == len(self._actions)
        try:
            if not seen.direct and seen.call_id in self._actions:
                most = self._effects.result_limit(self._current(seen.call_id).tool)
                seen = shorten_result(observation, most)  # if it is cancelled meanwhile
                seen = await cut_result(observation, most, reads_on=self.reads_on)
            seen = await self._effects.helpers.tell_ended(seen) if last else seen
        except asyncio.CancelledError:  # the call was made, and the log has to say so
            await self._effects.tell(Observed(self._step, seen))
            raise
        if last and (warning := self._meter.write_warning(self._deadline.left)):
            seen = replace(seen, note=f"{seen.note}\n{warning}".strip())
        self._seen[seen.call_id] = seen
        await self._effects.tell(Observed(self._step, seen))


def _withhold(observation: Observation, reason: str) -> Observation:
    """Return an observation with the reason in place of what the tool gave."""
    text = f"The result is withheld: {reason}"
    return replace(observation, text=text, note="", direct=False, files=())


def _apply_decision(action: AgentAction, decision: Decision | None) -> AgentAction | Observation:
    """Apply a person's decision: return the call to make, or the observation for the model instead."""
    if decision is None:
        return action
    if (let := decision.lets(action)) is not None:
        return let
    if decision.kind == "respond":
        return Observation(action.id, decision.message, files=decision.files)
    reason = f": {decision.message}" if decision.message else "."
    return Observation(action.id, f"A person refused this call of {action.tool}{reason}", "rejected")
