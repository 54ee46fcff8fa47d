"""What a run may use up, and when it has to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from .errors import UsageError
from .events import Asked, Event, Replied
from .schema import StopReason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one run; `None` is no limit.

    `steps` counts the model's replies. On the last one the strategy asks for nothing but an answer.
    `seconds` interrupts whatever is under way. `tokens` counts input and output of all requests.
    """

    steps: int | None = 10
    seconds: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "seconds", "tokens"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"a budget of {value} {name} allows nothing; give a positive number or None")


class Meter:
    """What a run used of its budget: a fold over its events."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = 0
        self.tokens = 0

    def add(self, event: Event) -> None:
        """Count `event`."""
        if isinstance(event, Asked):
            self.steps += not event.aside
        elif isinstance(event, Replied):
            self.tokens += event.reply.usage.total_tokens

    @property
    def last_step(self) -> bool:
        """Whether the next reply is the last one allowed."""
        return self.budget.steps is not None and self.steps + 1 >= self.budget.steps

    @property
    def tokens_left(self) -> int | None:
        """Tokens the budget still allows, if it limits them."""
        return None if self.budget.tokens is None else max(0, self.budget.tokens - self.tokens)

    def exceeded(self, *, aside: bool = False) -> StopReason | None:
        """Why the model may not be asked again, if so."""
        if not aside and self.budget.steps is not None and self.steps >= self.budget.steps:
            return StopReason.MAX_ITERATION_EXCEEDED
        if self.tokens_left == 0:
            return StopReason.TOKEN_BUDGET_EXCEEDED
        return None


class Interrupted(Exception):
    """The run's time is up, or somebody cancelled it."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Deadline:
    """Ends whatever a run waits for when its time is up or it is cancelled.

    Every wait of the loop goes through `wait`, and nothing else does: the timer never runs while an
    event is in the reader's hands.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timeout: asyncio.Timeout | None = None

    def start(self, seconds: float | None) -> None:
        """Begin; `seconds` from now the time is up (`None`: never)."""
        self._loop = asyncio.get_running_loop()
        self._at = None if seconds is None else self._loop.time() + seconds

    def cancel(self) -> None:
        """End the run as `CANCELLED`, at once. May be called from any thread, any number of times."""
        self._cancelled = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._fire)

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's result. Raises `Interrupted`, and cancels the awaitable, if it takes too long."""
        try:
            async with asyncio.timeout_at(self._at) as self._timeout:
                if self._cancelled:
                    self._fire()
                return await awaitable
        except TimeoutError as error:
            if self._timeout is None or not self._timeout.expired():
                raise  # somebody else's timeout
            reason = StopReason.CANCELLED if self._cancelled else StopReason.MAX_EXECUTION_TIME_EXCEEDED
            raise Interrupted(reason) from error
        finally:
            self._timeout = None

    def _fire(self) -> None:
        if self._timeout is not None and self._loop is not None:
            self._timeout.reschedule(self._loop.time())
