"""The helpers of a run: agents that it makes on demand. Each is a run of its own, as a member's is.

A helper in the background works while its caller goes on. What the log says of it is `Observation.helpers`: it begins
in the observation of its call, and has ended in that of `task_result`, or in the next one of whatever else, whose note
then tells the model. So the model is told once, also if the caller's process dies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ...errors import UsageError
from ..budgets import Budget, BudgetSpent
from ..run_context import ToolCall
from ..values import UNUSED, AgentAction, HelperState, Observation, sum_usages
from .delegation import Answer, Delegate, HelperOrder, MemberAnswer, MemberCall, ask_member, makes_helpers
from .signature import InvalidInput
from .tool import Tool

_LOST = MemberAnswer("unknown", "The helper is not known here. Make another if its work is still needed.", UNUSED, 0.0)
RESULT = "task_result"  # the name of the tool by which a model reads a helper's answer


def reads_helpers(tool: Tool) -> bool:
    """Return whether calls of the tool give what a helper in the background answers."""
    return hasattr(tool.something, "reads_helpers")


class RunHelpers:
    """The helpers of one run, which has these `tools` and the specification `caller`; `delegate` runs them."""

    def __init__(self, tools: Mapping[str, Tool], delegate: Delegate | None = None, caller: Any = None) -> None:
        self._tools = tools
        self._delegate = delegate
        self._caller = caller
        self._made: set[str] = set()  # by which calls
        self._under_way: set[str] = set()  # those that their callers wait for
        self._begun: dict[str, MemberCall] = {}  # in the background
        self._ended: set[str] = set()  # of which the log says so

    @property
    def at_work(self) -> list[str]:
        """The helpers in the background of which the log does not say that they have ended."""
        return [call for call in self._begun if call not in self._ended]

    def note(self, action: AgentAction, observation: Observation) -> None:
        """Note an observation, live or recorded."""
        tool = self._tools.get(action.tool)
        if tool is not None and makes_helpers(tool) and (observation.helpers or observation.usage.runs):
            self._made.add(action.id)
        for state in observation.helpers:
            if state.ended:
                self._ended.add(state.call)
            elif tool is not None and state.call not in self._begun:
                self._begun[state.call] = self._read_recorded(tool, action, state)

    def _read_recorded(self, tool: Tool, action: AgentAction, state: HelperState) -> MemberCall:
        share = Budget(steps=None, stale_steps=None, **state.share)
        try:
            return self._order(tool, tool.signature.arguments(action.tool_input), state.call, lambda: share)
        except (InvalidInput, UsageError):  # its caller has other tools by now
            return MemberCall(tool, "", state.call, lambda: share, HelperOrder(background=True), self._caller)

    def _order(self, tool: Tool, arguments: Mapping[str, Any], call: str, share: Callable[[], Budget]) -> MemberCall:
        """Return the call of a helper. Raises `UsageError` for one that may not be made."""
        order: HelperOrder = tool.something.order_helper(arguments, self._tools)
        if order.agent and any(one.point == "before_tool" for one in getattr(self._caller, "hooks", ())):
            raise UsageError(f"agent: this run's rules judge each call of {order.agent}: call it by its own tool")
        asked = self._tools[order.agent] if order.agent else tool
        return MemberCall(asked, str(arguments["description"]), call, share, order, self._caller)

    # ── the calls of tools ─────────────────────────────────────────────────────────────────────────

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], call: ToolCall, share: Callable[[], Budget]
    ) -> Answer:
        """Make a helper, or read what one answers. Raises `Pending` if it has not ended and the call waits for it."""
        assert self._delegate is not None
        try:
            if reads_helpers(tool):
                return await self._read(self._find(str(arguments["helper"])), call, self._delegate)
            helper = self._order(tool, arguments, call.id, share)
        except UsageError as error:
            return "invalid_input", f"The input of {tool.name} is not valid: {error}"
        if refusal := self._find_refusal(tool):
            return "failed", refusal
        self._made.add(call.id)
        self._under_way.add(call.id)
        try:
            if helper.in_background:
                return await self._begin(helper, call, self._delegate)
            return await ask_member(self._delegate, helper, call)
        finally:
            self._under_way.discard(call.id)

    def _find_refusal(self, tool: Tool) -> str:
        limits = tool.something.limits
        if len(self._under_way) + len(self.at_work) >= limits.at_once:
            return f"No helper was made: {limits.at_once} are at work, and no more may be at once. Call again later."
        if len(self._made) >= limits.most:
            return f"No helper was made: a run may make {limits.most}, and this one has. Do the rest without."
        return ""

    async def _begin(self, helper: MemberCall, call: ToolCall, delegate: Delegate) -> Answer:
        try:
            share = helper.allowance().halve()
        except BudgetSpent as error:
            return "failed", f"No helper was made: {error}."
        helper = replace(helper, allowance=lambda: share)
        await delegate.begin_helper(helper)
        self._begun[call.id] = helper
        limits = {name: one for name, one in asdict(share).items() if name in Budget.SHARED and one is not None}
        call.helpers.append(HelperState(call.id, share=limits))
        return "result", f"The helper {call.id} is at work. You are told when it ends; {RESULT} waits for its answer."

    def _find(self, call: str) -> MemberCall:
        if call not in self._begun:
            there = ", ".join(self._begun) or "none"
            raise UsageError(f"helper: there is no helper {call[:80]!r} in the background; there are: {there}")
        return self._begun[call]

    async def _read(self, helper: MemberCall, call: ToolCall, delegate: Delegate) -> Answer:
        ended = await delegate.find_ended([helper])
        found = ended[helper.call] if helper.call in ended else await delegate.run(helper)
        answer = found or _LOST
        if helper.call not in self._ended:
            self._ended.add(helper.call)
            call.helpers.append(HelperState(helper.call, ended=True))
            call.usage = answer.usage
        if answer.outcome == "unknown":
            return "failed", f"{answer.text} Whether what it began took effect is not known."
        return answer.outcome, answer.text

    # ── what the model is told beside ──────────────────────────────────────────────────────────────

    async def tell_ended(self, observation: Observation) -> Observation:
        """Return the observation, with the news of the helpers that have ended since the last one."""
        left = [self._begun[call] for call in self.at_work]
        found = await self._delegate.find_ended(left) if left and self._delegate is not None else {}
        if not found:
            return observation
        ended = {call: answer or _LOST for call, answer in found.items()}
        how = {call: "answered" if one.outcome == "result" else "ended" for call, one in ended.items()}
        notes = [f"(The helper {call} has {end}: {RESULT} says what came of it.)" for call, end in how.items()]
        return replace(
            observation,
            note="\n".join(filter(None, (observation.note, *notes))),
            usage=sum_usages([observation.usage, *(one.usage for one in ended.values())]),
            helpers=(*observation.helpers, *(HelperState(call, ended=True) for call in ended)),
        )
