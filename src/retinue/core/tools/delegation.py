"""Delegation: the run of an agent that is another agent's tool, a *member* of its team.

Every member call is a run of its own, with a log of its own. `Delegate` says where it runs: in the caller's process, or
as a stored run that a server drives. Its id is derived from the caller's run and the call, so whoever repeats the call
finds the run instead of starting a second one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from ..._internal.containment import describe_error
from ..budgets import Budget, BudgetSpent
from ..events import Called, Event, Observed, Replied, Started, Stopped
from ..run_context import ToolCall
from ..run_result import Ending
from ..values import Outcome, StopReason, Usage
from .tool import Tool

HANDOFF = "transfer_to_"  # begins the names of tools that hand the conversation over
Answer = tuple[Outcome, str]


def is_member(tool: Tool | None) -> bool:
    """Return whether the tool is an agent, whose calls are runs of their own."""
    return tool is not None and hasattr(tool.something, "run_spec")


def makes_helpers(tool: Tool | None) -> bool:
    """Return whether calls of the tool are runs of helpers."""
    return tool is not None and hasattr(tool.something, "order_helper")


@dataclass(frozen=True, slots=True)
class HelperOrder:
    """What a helper is, as data that is kept with its run.

    Args:
        agent: The member that it is; empty: an agent like its caller, of which the other arguments say the rest.
        instructions: What it is told beside its caller's instructions.
        tools: The names of its tools, all of which its caller has.
        approval: Those of them that a person has to approve.
        depth: How many levels of helpers it may have below it.
        background: Whether its caller goes on meanwhile.
    """

    agent: str = ""
    instructions: str = ""
    tools: Sequence[str] = ()
    approval: Sequence[str] = ()
    depth: int = 0
    background: bool = False


@dataclass(frozen=True, slots=True)
class MemberCall:
    """A call of a member, or of a helper.

    Args:
        tool: The member, as its caller's tool; of a helper that is none, the tool that makes helpers.
        question: What it is asked.
        call: The call's id in its caller's run.
        allowance: Returns its share of what its caller has left. Raises `BudgetSpent` if that is nothing.
        order: What a helper is.
        caller: The specification of the caller's run, of which helpers are made.
    """

    tool: Tool
    question: str
    call: str
    allowance: Callable[[], Budget]
    order: HelperOrder | None = None
    caller: Any = None

    @property
    def name(self) -> str:
        """What its caller calls it."""
        return self.tool.name if self.order is None else self.order.agent or f"the helper {self.call}"

    @property
    def in_background(self) -> bool:
        """Whether its caller goes on meanwhile."""
        return self.order is not None and self.order.background

    def run_spec(self) -> Any:
        """Return the specification of its run."""
        if self.order is None or self.order.agent:
            return self.tool.something.run_spec()
        return self.caller.for_helper(self.order)

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

    async def begin_helper(self, helper: MemberCall) -> None:
        """Begin the run of a helper in the background, unless it was. Raises `Pending` if that is not possible now."""
        ...

    async def find_ended(self, helpers: Sequence[MemberCall]) -> Mapping[str, MemberAnswer | None]:
        """Return how those of these helpers in the background ended that have, by their calls; `None` of one whose run
        is not there. The others go on."""
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
    spec = member.run_spec()
    if getattr(spec.model, "effects", "read") == "once":
        last = next((event for event in reversed(log) if isinstance(event, Stopped)), None)
        replied = any(isinstance(event, Replied) for event in log)
        acted = replied or last is None or last.code != "model_unreachable"
    else:
        tools = {tool.name: tool for tool in spec.tools}
        called = [event.action for event in log if isinstance(event, Called)]  # others may be those of functions
        begun = {
            one.id for one in called if one.tool not in tools or tools[one.tool].find_effects(one.tool_input) == "once"
        }
        seen = {event.observation.call_id: event.observation.outcome for event in log if isinstance(event, Observed)}
        acted = any(seen.get(call, "unknown") in ("result", "unknown") for call in begun)
    return answer._replace(outcome="unknown") if acted else answer


async def ask_member(delegate: Delegate, member: MemberCall, call: ToolCall) -> Answer:
    """Run a member for a call, and return what its caller observes. Raises `Pending`."""
    try:
        answer = await delegate.run(member)
    except BudgetSpent as error:
        return "failed", f"{call.tool} was not asked: {error}."
    except Pending:
        raise
    except Exception as error:  # a member may raise anything, too
        return "failed", f"{call.tool} failed: {describe_error(error)}"
    call.usage, call.seconds = answer.usage, answer.seconds  # of its whole run, not only of this drive
    return answer.outcome, answer.text
