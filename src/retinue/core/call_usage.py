"""What the agents use that a tool call runs: it is charged to the call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from .values import Usage


def charge_usage(usage: Callable[[], Usage]) -> None:
    """Charge the tokens of a nested run to the tool call that contains it, if any."""
    if (spent := SPENT.get()) is not None:
        spent.usage += usage()


_NOTHING = Usage()


@dataclass(slots=True)
class Spent:
    """What agents used that a call ran. `seconds` are those of a member's run, which its caller did not await."""

    usage: Usage = _NOTHING
    seconds: float = 0.0


SPENT: ContextVar[Spent | None] = ContextVar("SPENT", default=None)
