"""Budgets: what a run may use, and when it has to stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar

from .._internal.message_text import suggest_name
from ..errors import UsageError
from .events import Asked, Event, Replied, request_usage
from .values import Observation, StopReason, Usage

T = TypeVar("T", int, float)
WARN_AT = 0.7  # fraction of a budget
TOKENS = {"tokens": "total_tokens", "input_tokens": "input_tokens", "output_tokens": "output_tokens"}  # of `Usage`
_COUNTED = {**TOKENS, "cost": "cost"}
_NOTHING = 1e-9  # of a limit: sums of costs are not exact


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

        def least(mine: T | None, left: T | None) -> T | None:
            return mine if left is None else left if mine is None else min(mine, left)

        def team(name: Literal["total_steps", "depth", "children"]) -> int | None:
            mine, left = getattr(self, name), getattr(share, name)
            return left if mine == getattr(Budget(), name) else least(mine, left)

        return replace(
            self,
            seconds=least(self.seconds, share.seconds),
            tokens=least(self.tokens, share.tokens),
            input_tokens=least(self.input_tokens, share.input_tokens),
            output_tokens=least(self.output_tokens, share.output_tokens),
            total_steps=team("total_steps"),
            depth=team("depth"),
            children=team("children"),
            cost=least(self.cost, share.cost),
        )


class BudgetSpent(Exception):
    """A member cannot be called: there is nothing left of what the team has in common."""


class Limits(TypedDict, total=False):
    """Limits under the names of other frameworks; the first three all mean a budget's `steps`."""

    max_steps: int
    max_iterations: int
    recursion_limit: int
    max_execution_time: float
    early_stopping_method: Literal["generate", "force"]


def with_limits(budget: Budget, limits: Mapping[str, Any]) -> Budget:
    """Return `budget` with `limits` applied. Raises `UsageError` if a limit is unknown or set twice."""
    changes: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, value in limits.items():
        if name not in _MEANS:
            raise UsageError(f"there is no limit {name!r}; {suggest_name(name, _MEANS)}")
        means = _MEANS[name]
        if means in said or getattr(budget, means) != getattr(Budget(), means):
            raise UsageError(f"{name} is the same limit as {said.get(means) or f'{means} of budget'}; set only one")
        said[means] = name
        changes[means] = value
    return replace(budget, **changes) if changes else budget


_MEANS = {
    **dict.fromkeys(("max_steps", "max_iterations", "recursion_limit"), "steps"),
    "max_execution_time": "seconds",
    "early_stopping_method": "early_stopping_method",
}


@dataclass(slots=True)
class _Counted:
    """Usage of one kind of tokens, or its cost: the limit, the total so far, and the largest single request."""

    name: str
    counted: str
    limit: float
    used: float = 0
    dearest: float = 0

    def add(self, usage: Usage) -> None:
        more = getattr(usage, self.counted)
        self.used += more
        self.dearest = max(self.dearest, more)

    @property
    def left(self) -> float:
        left = self.limit - self.used
        return left if left > _NOTHING * self.limit else 0

    @property
    def reason(self) -> StopReason:
        return StopReason.COST_BUDGET_EXCEEDED if self.name == "cost" else StopReason.TOKEN_BUDGET_EXCEEDED

    @property
    def lack(self) -> float:
        """How much is left beyond two more requests, as prompts grow; less than 0 if there is not enough for them."""
        return self.left - 2.25 * self.dearest

    @property
    def scarce(self) -> list[str]:
        """The warning for the model once the limit is close."""
        told = f"{_format_amount(self.left)} of {_format_amount(self.limit)} {self.name.replace('_', ' ')}"
        return [told] if self.used >= WARN_AT * self.limit else []


def _format_amount(number: float) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)


class Meter:
    """Measures how much of its budget a run has used: a fold over its events."""

    __slots__ = ("_children", "_counted", "_most_replies", "_replies", "_slowest", "budget", "stale_steps", "steps")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = 0
        self.stale_steps = 0
        self._replies = 0  # of all models
        self._most_replies = math.inf if budget.replies is None else budget.replies
        self._children = 0
        self._counted = [
            _Counted(name, counted, limit)
            for name, counted in _COUNTED.items()
            if (limit := getattr(budget, name)) is not None
        ]
        self._slowest = 0.0  # of the longest reply so far

    def add(self, event: Event) -> None:
        """Count `event`."""
        if isinstance(event, Asked):
            self.steps = event.step
        elif (usage := request_usage(event)) is not None:
            for tokens in self._counted:
                tokens.add(usage)
        if isinstance(event, Replied):
            self._replies += event.reply.usage.requests or 1
            self._slowest = max(self._slowest, event.reply.seconds)

    def count_turn(self, observations: Sequence[Observation]) -> None:
        """Count a turn of tool use, including the tokens of agents used as tools."""
        for observation in observations:
            for tokens in self._counted:
                tokens.used += getattr(observation.usage, tokens.counted)
            self._replies += observation.usage.requests
            self._children += observation.usage.runs
        stale = bool(observations) and all(observation.stale for observation in observations)
        self.stale_steps = self.stale_steps + 1 if stale else 0

    @property
    def stagnated(self) -> bool:
        """Whether too many consecutive turns brought nothing new."""
        return self.budget.stale_steps is not None and self.stale_steps >= self.budget.stale_steps

    def find_forcing_limit(self, seconds_left: float | None) -> StopReason | None:
        """Return the limit that forces the next reply to be final: after it, there would not be enough left for
        another, since prompts grow.
        """
        steps = self.budget.steps
        if self.stale_steps and self.stagnated:
            return StopReason.STAGNATED
        if (steps is not None and self.steps + 1 >= steps) or self._replies + 1 >= self._most_replies:
            return StopReason.MAX_ITERATION_EXCEEDED
        for one in self._counted:
            if one.lack < 0:
                return one.reason
        if seconds_left is not None and seconds_left < 2.25 * self._slowest:
            return StopReason.MAX_EXECUTION_TIME_EXCEEDED
        return None

    def write_warning(self, seconds_left: float | None) -> str:
        """Return the budget warning for the model: once 70 % of a budget is spent and it may still act."""
        if self.find_forcing_limit(seconds_left):
            return ""
        budget, left = self.budget, []
        if budget.steps is not None and self.steps >= WARN_AT * budget.steps:
            left.append(f"{budget.steps - self.steps} of {budget.steps} steps")
        for tokens in self._counted:
            left += tokens.scarce
        if budget.seconds and seconds_left is not None and seconds_left <= (1 - WARN_AT) * budget.seconds:
            left.append(f"{seconds_left:.0f} of {budget.seconds:.0f} seconds")
        return f"({' and '.join(left)} left: come to an answer.)" if left else ""

    @property
    def tokens_left(self) -> int | None:
        """How many tokens the budget still allows for a reply, or `None` without a limit."""
        left = [int(one.left) for one in self._counted if one.name in ("tokens", "output_tokens")]
        return min(left) if left else None

    def divide_rest(self, parts: int, seconds_left: float | None) -> Budget:
        """Return what each of `parts` calls, made at once, may use of what is left, if they are of members. One reply
        stays with the caller, for its answer. Raises `BudgetSpent` if a limit leaves nothing."""
        budget = self.budget
        counted = {one.name: one.left / parts for one in self._counted}
        tokens = {name: int(left) for name, left in counted.items() if name in TOKENS}
        total = None if budget.replies is None else (budget.replies - self._replies - 1) // parts
        children = None if budget.children is None else (budget.children - self._children) // parts - 1
        depth = None if budget.depth is None else budget.depth - 1
        counts = {**tokens, "total steps": total, "children": None if children is None else children + 1}
        if counted.get("cost") == 0:
            raise BudgetSpent("the team's budget of cost is spent")
        for name, left in {**counts, "depth": None if depth is None else depth + 1}.items():
            if left is not None and left < 1:
                raise BudgetSpent(f"the team's budget of {name.replace('_', ' ')} is spent")
        return Budget(
            steps=None,
            seconds=seconds_left or None,
            stale_steps=None,
            tokens=tokens.get("tokens"),
            input_tokens=tokens.get("input_tokens"),
            output_tokens=tokens.get("output_tokens"),
            total_steps=total,
            depth=depth,
            children=children,
            cost=counted.get("cost"),
        )

    def describe_limit(self, reason: StopReason) -> str:
        """Describe the limit that ran out; empty for a reason that is none."""
        if reason is StopReason.MAX_EXECUTION_TIME_EXCEEDED and self.budget.seconds is not None:
            return f"seconds: the {self.budget.seconds:g} of the budget do not suffice for another reply"
        if reason is StopReason.MAX_ITERATION_EXCEEDED:
            if self.budget.steps is not None and self.steps >= self.budget.steps:
                return f"steps: {self.steps} of {self.budget.steps} are used"
            if self.budget.replies is not None:
                return f"total_steps: {self._replies} of {self.budget.replies} are used"
        counted = [one for one in self._counted if one.reason is reason]
        scarcest = min(counted, key=lambda one: one.lack, default=None)
        return (
            f"{scarcest.name}: {_format_amount(scarcest.used)} of {_format_amount(scarcest.limit)} are used"
            if scarcest
            else ""
        )

    def find_exceeded_limit(self, *, aside: bool = False) -> StopReason | None:
        """Return the reason why the model may not be asked again, if any."""
        spent = self.budget.steps is not None and self.steps >= self.budget.steps
        if self._replies >= self._most_replies or (spent and not aside):
            return StopReason.MAX_ITERATION_EXCEEDED
        for one in self._counted:
            if one.left == 0:
                return one.reason
        return None
