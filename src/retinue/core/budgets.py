"""Budgets: what a run may use, and when it has to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypedDict

from .._internal.message_text import suggest_name
from ..errors import UsageError
from .events import Asked, Event, Replied, request_usage
from .run_context import BudgetLeft
from .values import HelperState, Observation, StopReason, Usage

WARN_AT = 0.7  # fraction of a budget
TOKENS = {"tokens": "total_tokens", "input_tokens": "input_tokens", "output_tokens": "output_tokens"}  # of `Usage`
_COUNTED = {**TOKENS, "cost": "cost"}
_TEAM = ("total_steps", "depth", "children")  # limits of teams only
_NOTHING = 1e-9  # of a limit: sums of costs are not exact
_NEXT = 2.25  # how many times the largest request two more may take, as prompts grow


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one run; `None` means no limit.

    When a limit is nearly reached, the strategy asks only for an answer (`generate`) or the run stops (`force`), as
    `early_stopping_method` says (LangChain's parameter).

    Agents that are tools share what their caller has left: seconds, tokens, `cost`, `total_steps`, `depth` and
    `children`. So a team uses no more than its top was given. A limit of `cost` needs models with prices.

    Args:
        steps: Replies of the model, not counting its checks beside the steps.
        seconds: Wall-clock time; interrupts whatever is in progress.
        tokens: Input and output tokens of all requests; `input_tokens` and `output_tokens` limit either alone.
        stale_steps: Consecutive turns of tool use that bring nothing new.
        total_steps: Replies of all models, those of agents that are tools included; by default ten times `steps`.
        depth: Levels of agents below this one.
        children: Runs of agents below this one, at all levels together.
        cost: What all requests may cost, in the currency in which the prices of the models are given.
    """

    steps: int | None = 10
    seconds: float | None = None
    tokens: int | None = None
    stale_steps: int | None = 3
    early_stopping_method: Literal["generate", "force"] = "generate"
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_steps: int | None = None
    depth: int | None = 5
    children: int | None = 50
    cost: float | None = None
    SHARED: ClassVar = ("seconds", *_COUNTED, *_TEAM)
    """The limits that agents have in common with those that they call."""

    def __post_init__(self) -> None:
        for name in ("steps", "seconds", "stale_steps", "total_steps", *_COUNTED):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"a budget of {value} {name} allows nothing; give a positive number or None")
        for name in ("depth", "children"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"a budget has no {value} {name}; give 0 or more, or None")
        if self.early_stopping_method not in ("generate", "force"):
            raise UsageError(f"early_stopping_method: want generate or force, not {self.early_stopping_method!r}")

    @property
    def replies(self) -> int | None:
        """How many replies all models may give together."""
        return self.total_steps or (None if self.steps is None else 10 * self.steps)

    def within(self, share: Budget) -> Budget:
        """Return this budget, cut to what `share` leaves of the limits that a team has in common. Of those that only
        teams have, a default of this budget does not count: its caller's holds."""
        changes: dict[str, Any] = {}
        for name in self.SHARED:
            mine, left = getattr(self, name), getattr(share, name)
            ours = [left] if name in _TEAM and mine == getattr(Budget(), name) else [mine, left]
            changes[name] = min((one for one in ours if one is not None), default=None)
        return replace(self, **changes)

    def halve(self) -> Budget:
        """Return half of the limits that are counted, at least 1 of each: what a helper in the background gets, whose
        caller goes on with the rest."""
        counts = {name: left for name in (*TOKENS, "total_steps") if (left := getattr(self, name)) is not None}
        halves: dict[str, Any] = {name: max(1, left // 2) for name, left in counts.items()}
        children = None if self.children is None else self.children // 2
        return replace(self, **halves, children=children, cost=None if self.cost is None else self.cost / 2)


class BudgetSpent(Exception):
    """A member cannot be called: there is nothing left of what the team has in common."""


class Limits(TypedDict, total=False):
    """Limits under the names of other frameworks; the first three all mean a budget's `steps`."""

    max_steps: int
    max_iterations: int
    recursion_limit: int
    max_execution_time: float
    early_stopping_method: Literal["generate", "force"]


_MEANS = {
    **dict.fromkeys(("max_steps", "max_iterations", "recursion_limit"), "steps"),
    "max_execution_time": "seconds",
    "early_stopping_method": "early_stopping_method",
}


def with_limits(budget: Budget, limits: Mapping[str, Any]) -> Budget:
    """Return `budget` with `limits` applied. Raises `UsageError` if a limit is unknown or set twice."""
    said: dict[str, str] = {}
    for name in limits:
        if name not in _MEANS:
            raise UsageError(f"there is no limit {name!r}; {suggest_name(name, _MEANS)}")
        means = _MEANS[name]
        if means in said or getattr(budget, means) != getattr(Budget(), means):
            raise UsageError(f"{name} is the same limit as {said.get(means) or f'{means} of budget'}; set only one")
        said[means] = name
    return replace(budget, **{means: limits[name] for means, name in said.items()})


@dataclass(slots=True)
class _Counted:
    """Usage of one kind of tokens, or its cost: the limit, the total so far, and the largest single request."""

    name: str
    limit: float
    used: float = 0
    dearest: float = 0

    def add(self, usage: Usage, *, one_request: bool) -> None:
        more = getattr(usage, _COUNTED[self.name])
        self.used += more
        self.dearest = max(self.dearest, more if one_request else 0)

    @property
    def left(self) -> float:
        left = self.limit - self.used
        return left if left > _NOTHING * self.limit else 0

    @property
    def lack(self) -> float:
        """How much is left beyond two more requests; less than 0 if there is not enough for them."""
        return self.left - _NEXT * self.dearest

    @property
    def reason(self) -> StopReason:
        return StopReason.COST_BUDGET_EXCEEDED if self.name == "cost" else StopReason.TOKEN_BUDGET_EXCEEDED


def _format_amount(number: float) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)


class Meter:
    """Measures how much of its budget a run has used: a fold over its events."""

    __slots__ = ("_children", "_counted", "_held", "_replies", "_slowest", "budget", "stale_steps", "steps")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = 0
        self.stale_steps = 0
        self._replies = 0  # of all models
        self._children = 0
        self._counted = [_Counted(name, limit) for name in _COUNTED if (limit := getattr(budget, name)) is not None]
        self._held: dict[str, Mapping[str, Any]] = {}  # shares of helpers in the background
        self._slowest = 0.0  # seconds of the longest reply so far

    def add(self, event: Event) -> None:
        """Count `event`."""
        if isinstance(event, Asked):
            self.steps = event.step
        elif (usage := request_usage(event)) is not None:
            for counted in self._counted:
                counted.add(usage, one_request=True)
        if isinstance(event, Replied):
            self._replies += event.reply.usage.requests or 1
            self._slowest = max(self._slowest, event.reply.seconds)

    def count_turn(self, observations: Sequence[Observation]) -> None:
        """Count a turn of tool use, including the tokens of agents used as tools."""
        for observation in observations:
            for counted in self._counted:
                counted.add(observation.usage, one_request=False)
            self._replies += observation.usage.requests
            self._children += observation.usage.runs
        self._hold_shares(state for observation in observations for state in observation.helpers)
        stale = bool(observations) and all(observation.stale for observation in observations)
        self.stale_steps = self.stale_steps + 1 if stale else 0

    def _hold_shares(self, states: Iterable[HelperState]) -> None:
        """Count as used what helpers in the background may use, until they have ended."""
        for state in sorted(states, key=lambda one: one.ended):
            share, sign = (self._held.pop(state.call, None), -1) if state.ended else (state.share, 1)
            if share is None:
                continue
            if not state.ended:
                self._held[state.call] = share
            for counted in self._counted:
                counted.used += sign * share.get(counted.name, 0)
            self._replies += sign * share.get("total_steps", 0)
            self._children += sign * (share.get("children", 0) + 1)

    @property
    def stagnated(self) -> bool:
        """Whether too many consecutive turns brought nothing new."""
        return self.budget.stale_steps is not None and self.stale_steps >= self.budget.stale_steps

    @property
    def tokens_left(self) -> int | None:
        """How many tokens the budget still allows for a reply, or `None` without a limit."""
        return min((int(one.left) for one in self._counted if one.name in ("tokens", "output_tokens")), default=None)

    def describe_rest(self, seconds_left: float | None) -> BudgetLeft:
        """Return what the run may still use."""
        replies = (self.budget.steps, self.steps), (self.budget.replies, self._replies)
        steps = min((max(0, limit - used) for limit, used in replies if limit is not None), default=None)
        cost = next((one.left for one in self._counted if one.name == "cost"), None)
        return BudgetLeft(steps, seconds_left, self.tokens_left, cost)

    def _exhausts(self, *, more: int) -> bool:
        """Return whether so many `more` replies would be the last of all models."""
        return self.budget.replies is not None and self._replies + more >= self.budget.replies

    def find_exceeded_limit(self, *, aside: bool = False) -> StopReason | None:
        """Return the reason why the model may not be asked again, if any."""
        spent = self.budget.steps is not None and self.steps >= self.budget.steps
        if self._exhausts(more=0) or (spent and not aside):
            return StopReason.MAX_ITERATION_EXCEEDED
        return next((one.reason for one in self._counted if one.left == 0), None)

    def find_forcing_limit(self, seconds_left: float | None) -> StopReason | None:
        """Return the limit that forces the next reply to be final: after it, there would not be enough left for
        another, since prompts grow."""
        if self.stale_steps and self.stagnated:
            return StopReason.STAGNATED
        if (self.budget.steps is not None and self.steps + 1 >= self.budget.steps) or self._exhausts(more=1):
            return StopReason.MAX_ITERATION_EXCEEDED
        if scarce := next((one for one in self._counted if one.lack < 0), None):
            return scarce.reason
        if seconds_left is not None and seconds_left < _NEXT * self._slowest:
            return StopReason.MAX_EXECUTION_TIME_EXCEEDED
        return None

    def write_warning(self, seconds_left: float | None) -> str:
        """Return the budget warning for the model: once 70 % of a budget is spent and it may still act."""
        if self.find_forcing_limit(seconds_left):
            return ""
        budget, left = self.budget, []
        if budget.steps is not None and self.steps >= WARN_AT * budget.steps:
            left.append(f"{budget.steps - self.steps} of {budget.steps} steps")
        for one in self._counted:
            if one.used >= WARN_AT * one.limit:
                name = one.name.replace("_", " ")
                left.append(f"{_format_amount(one.left)} of {_format_amount(one.limit)} {name}")
        if budget.seconds and seconds_left is not None and seconds_left <= (1 - WARN_AT) * budget.seconds:
            left.append(f"{seconds_left:.0f} of {budget.seconds:.0f} seconds")
        return f"({' and '.join(left)} left: come to an answer.)" if left else ""

    def describe_limit(self, reason: StopReason) -> str:
        """Describe the limit that ran out; empty for a reason that is none."""
        budget = self.budget
        if reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED and budget.seconds is not None:
            return f"seconds: the {budget.seconds:g} of the budget do not suffice for another reply"
        if reason is StopReason.MAX_ITERATION_EXCEEDED:
            if budget.steps is not None and self.steps >= budget.steps:
                return f"steps: {self.steps} of {budget.steps} are used"
            if budget.replies is not None:
                return f"total_steps: {self._replies} of {budget.replies} are used"
        counted = (one for one in self._counted if one.reason is reason)
        scarcest = min(counted, key=lambda one: one.lack, default=None)
        if scarcest is None:
            return ""
        return f"{scarcest.name}: {_format_amount(scarcest.used)} of {_format_amount(scarcest.limit)} are used"

    def divide_rest(self, parts: int, seconds_left: float | None) -> Budget:
        """Return what each of `parts` calls, made at once, may use of what is left, if they are of members. One reply
        stays with the caller, for its answer. Raises `BudgetSpent` if a limit leaves nothing."""
        budget = self.budget
        counted = {one.name: one.left / parts for one in self._counted}
        rest: dict[str, int | None] = {name: int(left) for name, left in counted.items() if name in TOKENS}
        rest["total_steps"] = None if budget.replies is None else (budget.replies - self._replies - 1) // parts
        rest["children"] = None if budget.children is None else (budget.children - self._children) // parts
        rest["depth"] = budget.depth
        if counted.get("cost") == 0:
            raise BudgetSpent("the team's budget of cost is spent")
        for name, left in rest.items():
            if left is not None and left < 1:
                raise BudgetSpent(f"the team's budget of {name.replace('_', ' ')} is spent")
        for name in ("children", "depth"):  # of which the call itself takes one
            rest[name] = None if (left := rest[name]) is None else left - 1
        limits: dict[str, Any] = {**rest, "cost": counted.get("cost")}
        return Budget(steps=None, seconds=seconds_left or None, stale_steps=None, **limits)
