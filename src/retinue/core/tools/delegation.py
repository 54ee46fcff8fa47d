"""Delegation: the run of an agent that is another agent's tool, a *member* of its team.

Every member call is a run of its own, with a log of its own. `Delegate` says where it runs: in the caller's process, or
as a stored run that a server drives. Its id is derived from the caller's run and the call, so whoever repeats the call
finds the run instead of starting a second one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ..budgets import Budget
from ..events import Called, Event, Observed, Replied, Started, Stopped
from ..run_result import Ending
from ..values import Outcome, StopReason, Usage
from .tool import Tool

HANDOFF = "transfer_to_"  # begins the names of tools that hand the conversation over


def is_member(tool: Tool | None) -> bool:
    """Return whether the tool is an agent, whose calls are runs of their own."""
    return tool is not None and hasattr(tool.something, "run_spec")


@dataclass(frozen=True, slots=True)
class MemberCall:
    """A call of a member.

    Args:
        tool: The member, as its caller's tool.
        question: What it is asked.
        call: The call's id in its caller's run.
        allowance: Returns its share of what its caller has left. Raises `BudgetSpent` if that is nothing.
    """

    tool: Tool
    question: str
    call: str
    allowance: Callable[[], Budget]

    @property
    def passes_conversation(self) -> bool:
        """Whether the member is to answer the conversation itself, rather than `question`."""
        return bool(getattr(self.tool.something, "passes_conversation", False))

    def budget(self, own: Budget) -> Budget:
        """Return the budget of its run: the member's `own`, within the allowance and the tool's time limit. Raises
        `BudgetSpent`."""
        share = self.allowance()
        seconds = min(self.tool.timeout, share.seconds or math.inf)
        return own.within(replace(share, seconds=None if seconds == math.inf else seconds))


class MemberAnswer(NamedTuple):
    """How a member's run ended, and all that it used; `seconds` do not count those in which it waited."""

    outcome: Outcome
    text: str
    usage: Usage
    seconds: float


class Pending(Exception):
    """The member's run has not ended, and nothing is held for it: the caller's run stops for `reason`, and repeats the
    call when it continues. `detail` says what is waited for."""

    def __init__(self, reason: StopReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def stop_reason(pending: Sequence[Pending]) -> StopReason:
    """Return why a run stops that waits for these members: for a person, if any of them does."""
    human = any(one.reason is StopReason.AWAITING_HUMAN for one in pending)
    return StopReason.AWAITING_HUMAN if human else StopReason.AWAITING_MEMBER


class Delegate(Protocol):
    """Runs members."""

    def can_continue(self, call: str) -> bool:
        """Return whether the run of this call can be continued; otherwise a begun call has an unknown outcome."""
        ...

    def learn(self, started: Started) -> None:
        """Note the caller's question, which hooks may have changed: that is what members are passed."""
        ...

    async def run(self, member: MemberCall) -> MemberAnswer:
        """Start, continue or find the member's run, and return how it ended. Raises `Pending` if it has not ended."""
        ...


def answer_of(name: str, end: Ending, usage: Usage, seconds: float) -> MemberAnswer:
    """Return what the caller observes of the run of the member `name`, which ended so; `usage` is that of the whole
    run. Only a whole answer is a result."""
    used = usage + Usage(runs=1)
    if end.answered:
        return MemberAnswer("result", end.answer, used, seconds)
    why = f"({end.reason}{f': {end.detail}' if end.detail else ''})"
    told = f"did not end its answer {why}. It begins: {end.answer}" if end.answer else f"did not answer {why}."
    return MemberAnswer("failed", f"{name} {told}", used, seconds)


def with_effects(answer: MemberAnswer, member: MemberCall, log: Sequence[Event]) -> MemberAnswer:
    """Return the answer of a member's run with this `log`. Its outcome is unknown if there is no result and the run may
    have taken effect: by a call of a `once` tool, or as its model is an agent elsewhere. Its caller may then not ask
    the same again unless a person says so, as the new run would know nothing of it."""
    if answer.outcome != "failed" or member.tool.effects != "once":
        return answer
    spec = member.tool.something.run_spec()
    if getattr(spec.model, "effects", "read") == "once":
        last = next((event for event in reversed(log) if isinstance(event, Stopped)), None)
        replied = any(isinstance(event, Replied) for event in log)
        acted = replied or last is None or last.code != "model_unreachable"
    else:
        tools = {tool.name: tool for tool in spec.tools}
        called = [event.action for event in log if isinstance(event, Called) and event.action.tool in tools]
        begun = {one.id for one in called if tools[one.tool].find_effects(one.tool_input) == "once"}
        seen = {event.observation.call_id: event.observation.outcome for event in log if isinstance(event, Observed)}
        acted = any(seen.get(call, "unknown") in ("result", "unknown") for call in begun)
    return answer._replace(outcome="unknown") if acted else answer
