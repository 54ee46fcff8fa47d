"""Budgets: what a run may use, and when it has to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar

from .._internal.containment import foreign_exit, is_ours
from .._internal.suggestions import suggestion
from ..errors import UsageError
from .events import Asked, Event, Replied
from .values import Observation, StopReason, Usage

T = TypeVar("T")
WARN_AT = 0.7  # fraction of a budget
TOKENS = {"tokens": "total_tokens", "input_tokens": "input_tokens", "output_tokens": "output_tokens"}  # of `Usage`


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one run; `None` means no limit.

    When a limit is nearly reached, the strategy asks only for an answer (`generate`) or the run stops (`force`), as
    `early_stopping_method` says (LangChain's parameter).

    Args:
        steps: Replies of the model, not counting its checks beside the steps.
        seconds: Wall-clock time; interrupts whatever is in progress.
        tokens: Input and output tokens of all requests; `input_tokens` and `output_tokens` limit either alone.
        stale_steps: Consecutive turns of tool use that bring nothing new.
    """

    steps: int | None = 10
    seconds: float | None = None
    tokens: int | None = None
    stale_steps: int | None = 3
    early_stopping_method: Literal["generate", "force"] = "generate"
    input_tokens: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "seconds", "stale_steps", *TOKENS):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"a budget of {value} {name} allows nothing; give a positive number or None")
        if self.early_stopping_method not in ("generate", "force"):
            raise UsageError(f"early_stopping_method: want generate or force, not {self.early_stopping_method!r}")


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
            raise UsageError(f"there is no limit {name!r}; {suggestion(name, _MEANS)}")
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
class _Tokens:
    """Usage of one kind of tokens: the limit, the total so far, and the largest single request."""

    name: str
    counted: str
    limit: int
    used: int = 0
    dearest: int = 0

    def add(self, usage: Usage) -> None:
        tokens = getattr(usage, self.counted)
        self.used += tokens
        self.dearest = max(self.dearest, tokens)

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def scarce(self) -> list[str]:
        """The warning for the model once the limit is close."""
        told = f"{self.left} of {self.limit} {self.name.replace('_', ' ')}"
        return [told] if self.used >= WARN_AT * self.limit else []


class Meter:
    """Measures how much of its budget a run has used: a fold over its events."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = 0
        self.stale_steps = 0
        self._tokens = [
            _Tokens(name, counted, limit)
            for name, counted in TOKENS.items()
            if (limit := getattr(budget, name)) is not None
        ]
        self._slowest = 0.0  # of the longest reply so far

    def add(self, event: Event) -> None:
        """Count `event`."""
        if isinstance(event, Asked):
            self.steps = event.step
        elif isinstance(event, Replied):
            for tokens in self._tokens:
                tokens.add(event.reply.usage)
            self._slowest = max(self._slowest, event.reply.seconds)

    def saw(self, observations: Sequence[Observation]) -> None:
        """Count a turn of tool use, including the tokens of agents used as tools."""
        for observation in observations:
            for tokens in self._tokens:
                tokens.used += getattr(observation.usage, tokens.counted)
        stale = bool(observations) and all(observation.stale for observation in observations)
        self.stale_steps = self.stale_steps + 1 if stale else 0

    @property
    def stagnated(self) -> bool:
        """Whether too many consecutive turns brought nothing new."""
        return self.budget.stale_steps is not None and self.stale_steps >= self.budget.stale_steps

    def nearest(self, seconds_left: float | None) -> StopReason | None:
        """Return the limit that forces the next reply to be final: after it, there would not be enough left for
        another, since prompts grow.
        """
        steps = self.budget.steps
        if self.stagnated:
            return StopReason.STAGNATED
        if steps is not None and self.steps + 1 >= steps:
            return StopReason.MAX_ITERATION_EXCEEDED
        if self._tokens and any(tokens.left < 2.25 * tokens.dearest for tokens in self._tokens):
            return StopReason.TOKEN_BUDGET_EXCEEDED
        if seconds_left is not None and seconds_left < 2.25 * self._slowest:
            return StopReason.MAX_EXECUTION_TIME_EXCEEDED
        return None

    def warning(self, seconds_left: float | None) -> str:
        """Return the budget warning for the model: once 70 % of a budget is spent and it may still act."""
        if self.nearest(seconds_left):
            return ""
        budget, left = self.budget, []
        if budget.steps is not None and self.steps >= WARN_AT * budget.steps:
            left.append(f"{budget.steps - self.steps} of {budget.steps} steps")
        for tokens in self._tokens:
            left += tokens.scarce
        if budget.seconds and seconds_left is not None and seconds_left <= (1 - WARN_AT) * budget.seconds:
            left.append(f"{seconds_left:.0f} of {budget.seconds:.0f} seconds")
        return f"({' and '.join(left)} left: come to an answer.)" if left else ""

    @property
    def tokens_left(self) -> int | None:
        """How many tokens the budget still allows for a reply, or `None` without a limit."""
        return min((tokens.left for tokens in self._tokens if tokens.name != "input_tokens"), default=None)

    @property
    def scarcest(self) -> str:
        """Describe the token budget that ran out."""
        scarcest = min(self._tokens, key=lambda tokens: tokens.left - 2.25 * tokens.dearest)
        return f"{scarcest.name}: {scarcest.used} of {scarcest.limit} are used"

    def exceeded(self, *, aside: bool = False) -> StopReason | None:
        """Return the reason why the model may not be asked again, if any."""
        if not aside and self.budget.steps is not None and self.steps >= self.budget.steps:
            return StopReason.MAX_ITERATION_EXCEEDED
        if self._tokens and any(tokens.left == 0 for tokens in self._tokens):
            return StopReason.TOKEN_BUDGET_EXCEEDED
        return None


class Interrupted(Exception):
    """The run timed out or was cancelled."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Deadline:
    """Ends whatever a run waits for when it times out or is cancelled.

    Every wait of the loop goes through `wait`, and nothing else does, so an event in the reader's hands is never
    interrupted. One timer serves the whole run: `asyncio.timeout` would set one for each delta.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._cancelled = False
        self._over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float | None) -> None:
        """Start the timer, which expires after `seconds` (`None`: never)."""
        self.stop()
        self._loop = asyncio.get_running_loop()
        self._at = None if seconds is None else self._loop.time() + seconds
        self._timer = None if self._at is None else self._loop.call_at(self._at, self._end)

    def stop(self) -> None:
        """Stop the timer; the run is over."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def left(self) -> float | None:
        """The seconds until the timer expires, or `None` without a limit."""
        return None if self._at is None or self._loop is None else max(0.0, self._at - self._loop.time())

    def cancel(self) -> None:
        """End the run as `CANCELLED`, at once. Thread-safe and idempotent."""
        self._cancelled = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Return the awaitable's result.

        On a timeout or cancellation, cancels the awaitable and raises `Interrupted`. Whatever foreign code in it
        raises becomes an `Exception`.
        """
        if self._over or self._cancelled:
            close = getattr(awaitable, "close", None) or getattr(awaitable, "cancel", None)
            if close is not None:  # a coroutine that was never started
                close()
            raise self._interrupted
        task = self._waiting = asyncio.current_task()
        assert task is not None
        cancelled_by_others = task.cancelling()
        try:
            return await awaitable
        except Exception:
            raise
        except BaseException as error:
            if not is_ours(error):
                raise foreign_exit(error) from error
            if isinstance(error, asyncio.CancelledError) and self._over and task.uncancel() <= cancelled_by_others:
                raise self._interrupted from error
            raise
        finally:
            self._waiting = None

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        if self._waiting is not None:
            self._waiting.cancel()

    @property
    def _interrupted(self) -> Interrupted:
        return Interrupted(StopReason.CANCELLED if self._cancelled else StopReason.MAX_EXECUTION_TIME_EXCEEDED)
