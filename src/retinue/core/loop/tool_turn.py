"""One turn of tool use: get human decisions where required, then run the actions concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from ..budgets import Budget, Meter
from ..events import Called, Event, Observed, Paused, Resumed, Stopped
from ..protocols import Effects
from ..tools.delegation import Pending, stop_reason
from ..values import AgentAction, Decision, Observation, StopReason
from .deadline import Deadline

AT_ONCE = 16  # concurrent calls of one reply; the others wait, and so do the records of their intents


class ToolTurn:
    """Runs the actions of one step; `acted` other actions ran before them (a call that was reflected on).

    The last observation carries the warning of `meter` for the model. Agents that are called get equal shares of what
    it leaves.
    """

    def __init__(
        self,
        meter: Meter,
        acted: int,
        actions: Sequence[AgentAction],
        effects: Effects,
        deadline: Deadline,
    ) -> None:
        self._meter = meter
        self._step = step = meter.steps
        self._actions = [
            AgentAction(action.tool, action.tool_input, action.log, f"call_{step}_{at}")
            for at, action in enumerate(actions, acted)
        ]
        self._effects = effects
        self._deadline = deadline
        self._begun: dict[str, AgentAction] = {}
        self._paused: set[str] = set()
        self._decided: dict[str, Decision] = {}
        self._seen: dict[str, Observation] = {}
        self._pending: list[Pending] = []
        for event in effects.past(self._actions):
            self._take_note(event)
        self._cut_off = self._begun.keys() - self._seen.keys()  # in an earlier drive; their outcome is unknown
        for call in self._cut_off:
            effects.restore(self._begun[call], None)

    def _take_note(self, event: Event) -> None:
        """Restore the progress of these calls from a logged event."""
        match event:
            case Called(action=begun):  # the decision led to this intent and to no other
                self._begin(begun)
                self._paused.discard(begun.id)
                self._decided.pop(begun.id, None)
            case Paused(action=action):
                self._paused.add(action.id)
                if action.id in self._begun:  # cut off before; a person's refusal does not settle that
                    self._effects.restore(self._begun[action.id], None)
            case Resumed(call_id=call_id, decision=decision):
                self._decided[call_id] = decision
            case Observed(observation=observation):
                call = observation.call_id
                self._seen[call] = observation
                actions = {action.id: action for action in self._actions}
                self._effects.restore(self._begun.get(call, actions[call]), observation)

    async def observe(self) -> tuple[Observation, ...] | Stopped:
        """Finish the actions and return their observations in order, or the end of the run if a person's decision is
        pending.
        """
        waiting: list[AgentAction] = []
        left = [action for action in self._actions if action.id not in self._seen]
        for start in range(0, len(left), AT_ONCE):
            waiting += await self._run_group(left[start : start + AT_ONCE])
        if waiting or self._pending:
            return self._stop_for(waiting)
        for action in self._actions:
            self._effects.recall(self._begun.get(action.id, action), self._seen[action.id])
        return tuple(self._seen[action.id] for action in self._actions)

    def _stop_for(self, calls: Sequence[AgentAction]) -> Stopped:
        """Return the end of a run that waits for a person's decision on `calls`, or for its members."""
        said = [f"no person has decided on {one.tool} ({one.id}): {self._find_approval_reason(one)}" for one in calls]
        reason = StopReason.AWAITING_HUMAN if calls else stop_reason(self._pending)
        return Stopped(reason, "; ".join([*said, *(one.detail for one in self._pending)]))

    async def _run_group(self, actions: Sequence[AgentAction]) -> list[AgentAction]:
        """Run actions concurrently; return those that need a pending decision of a person."""
        waiting: list[AgentAction] = []
        ready: list[AgentAction] = []
        for action in actions:
            if not await self._clear_call(action):
                waiting.append(action)
            elif action.id not in self._seen:
                ready.append(self._begun[action.id])
        if len(ready) == 1:  # no task of its own, which would cost more than the rest of the turn
            await self._await_call(self._deadline.wait(self._effects.call(ready[0], self._divide_budget)))
        elif ready:
            await self._run_calls(ready)
        return waiting

    async def _clear_call(self, action: AgentAction) -> bool:
        """Return whether the action is begun or settled; otherwise it waits for a person."""
        if problem := self._find_approval_reason(action):
            await self._consult(self._begun.get(action.id, action), problem)  # possibly edited by a person
            if action.id not in self._decided:
                return False
        began = self._begun.get(action.id, action)
        settled = _apply_decision(began, self._decided.get(action.id))
        if isinstance(settled, Observation):
            self._effects.restore(began, settled)
            await self._record_observation(settled)
        elif self._begun.get(action.id) != settled or action.id in self._decided:
            self._begin(settled)
            await self._effects.tell(Called(self._step, settled))
        return True

    def _begin(self, action: AgentAction) -> None:
        """Mark an action as begun; earlier decisions on equal calls do not apply to later ones."""
        self._begun[action.id] = action
        if not self._decided:
            return
        for other in self._actions:
            decided = self._decided.get(other.id)
            let = decided and decided.lets(self._begun.get(other.id, other))
            if let and let.id != action.id and self._effects.same(let, action):
                del self._decided[other.id]
                self._paused.discard(other.id)

    def _find_approval_reason(self, action: AgentAction) -> str:
        if action.id in self._decided or action.id in self._seen:
            return ""
        began = self._begun.get(action.id, action)
        return self._effects.must_ask(began, begun=action.id in self._cut_off)

    async def _consult(self, action: AgentAction, problem: str) -> None:
        """Ask a person for a decision on `action`."""
        if action.id not in self._paused:
            await self._effects.tell(Paused(self._step, action, problem))
        decision = await self._deadline.wait(self._effects.consult(action, problem))
        if decision is not None:
            self._decided[action.id] = decision
            await self._effects.tell(Resumed(self._step, action.id, decision))

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
            await self._record_observation(observation)

    async def _record_observation(self, observation: Observation) -> None:
        if len(self._seen) + 1 == len(self._actions) and (warning := self._meter.write_warning(self._deadline.left)):
            note = f"{observation.note}\n{warning}".strip()
            observation = replace(observation, note=note)
        self._seen[observation.call_id] = observation
        await self._effects.tell(Observed(self._step, observation))

    async def _run_calls(self, actions: Sequence[AgentAction]) -> None:
        running = {asyncio.ensure_future(self._effects.call(action, self._divide_budget)) for action in actions}
        try:
            while running:
                done, running = await self._deadline.wait(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))
                for task in done:
                    await self._await_call(task)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)


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
