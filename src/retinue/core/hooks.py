"""Hooks: functions that look at what a run is about to do, and may change it, block it, or ask a person.

A hook is called with an event and the run's context, and returns a verdict: `None` lets the event pass, `Change` puts
another in its place, `Block` refuses it, and `AskPerson` leaves it to a person. Several are called in order: each sees
what those before it changed, and the first that blocks or asks is the last.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from .._internal.message_text import suggest_name
from ..errors import UsageError
from .events import Asked, Called, Finished, Observed, Point, Replied, Started
from .run_context import RunContext

Judgeable: TypeAlias = Started | Asked | Replied | Called | Observed | Finished
POINTS: tuple[Point, ...] = get_args(Point)
SECONDS = 60.0  # that an async hook may take


@dataclass(frozen=True, slots=True)
class Change:
    """The verdict that `event` takes the place of the one judged. It is of the same kind, and about the same."""

    event: Judgeable


@dataclass(frozen=True, slots=True)
class Block:
    """The verdict that this may not be, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskPerson:
    """The verdict that a person has to decide, with the reason."""

    reason: str


Verdict: TypeAlias = Change | Block | AskPerson | None
Judge: TypeAlias = Callable[[Any, RunContext[Any]], Verdict | Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that judges what is at a point of a run.

    The points, and what is judged there: `before_run` `Started` · `before_model` `Asked` · `after_model` `Replied` ·
    `before_tool` `Called` · `after_tool` `Observed` · `before_answer` `Finished` · `after_run` `Finished` or `Stopped`,
    whose verdict counts for nothing.

    Args:
        point: Where it is called.
        function: Is called with the event and the context. If it is not async, it runs where the run does, and must not
            wait for anything.
        name: What the log calls it; by default the function's name.
        on_error: What it means if the function raises, takes too long, or returns no verdict: `block` or `pass`.
        seconds: How long an async function may take.
        replays: Whether a replay calls it, too. One that asks a model or counts something should not be.
    """

    point: Point
    function: Judge
    name: str = ""
    on_error: Literal["block", "pass"] = "block"
    seconds: float = SECONDS
    replays: bool = True

    def __post_init__(self) -> None:
        if self.point not in POINTS:
            raise UsageError(f"no point {self.point!r} for hooks; {suggest_name(str(self.point), POINTS)}")
        if not callable(self.function):
            raise UsageError(f"a hook is a function of an event and a context, not {self.function!r:.80}")
        if self.on_error not in ("block", "pass"):
            raise UsageError(f"on_error of a hook is 'block' or 'pass', not {self.on_error!r:.80}")
        if not self.name:
            named = getattr(self.function, "__name__", None) or type(self.function).__name__
            object.__setattr__(self, "name", str(named))

    def __call__(self, event: Any, context: RunContext[Any]) -> Verdict | Awaitable[Verdict]:
        """Call the function."""
        return self.function(event, context)


def hook(
    point: Point,
    *,
    name: str = "",
    on_error: Literal["block", "pass"] = "block",
    seconds: float = SECONDS,
    replays: bool = True,
) -> Callable[[Judge], Hook]:
    """Make a function a `Hook`: `@hook("before_tool")`. The options are those of `Hook`."""
    return lambda function: Hook(point, function, name, on_error, seconds, replays)


def list_hooks(given: Iterable[Any]) -> tuple[Hook, ...]:
    """Return the hooks among `given`, and those of objects with a method `hooks`. Raises `UsageError`."""
    wanted = "want a list of hooks, such as [my_hook] with @hook('before_tool') above its function"
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"hooks: {wanted}, not {given!r:.80}")
    found: list[Hook] = []
    for at, one in enumerate(given):
        several = getattr(one, "hooks", None)
        if isinstance(one, Hook):
            found.append(one)
        elif callable(several) and not inspect.isclass(one):
            found += list_hooks(several())
        else:
            raise UsageError(f"hooks[{at}]: {wanted}, not {one!r:.80}")
    return tuple(found)
