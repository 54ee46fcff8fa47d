"""Whether an agent made the calls that were expected: their names and arguments.

Arguments are compared as the Berkeley Function-Calling Leaderboard (Patil et al. 2025) defines its comparison of syntax
trees: texts without case, spaces and `, . / - _ * ^`; numbers by value, and never as truth values; lists in order. All
required arguments are there, and no others; the order of the calls does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.events import Called, Event, Observed, Paused
from ..core.values import AgentAction
from .questions import ExpectedCall, OneOf

_IGNORED = re.compile(r"[ ,./\-_*^]")
_MISSING = object()


def made_calls(log: Iterable[Event]) -> list[AgentAction]:
    """Return the calls in a run's log: those with a result of their own, and those that wait for somebody."""
    calls: dict[str, AgentAction] = {}
    for event in log:
        if isinstance(event, Called | Paused):
            calls[event.action.id] = event.action
        elif isinstance(event, Observed) and event.observation.outcome in ("repeated", "unknown_tool"):
            calls.pop(event.observation.call_id, None)
    return list(calls.values())


def matched(expected: Sequence[ExpectedCall], made: Sequence[AgentAction]) -> int:
    """Return how many of the expected calls were made; each call counts for one of them."""
    left, count = list(made), 0
    for wanted in expected:
        at = next((at for at, call in enumerate(left) if is_call(wanted, call)), None)
        if at is not None:
            del left[at]
            count += 1
    return count


def is_call(expected: ExpectedCall, call: AgentAction) -> bool:
    """Return whether a call is the expected one."""
    if call.tool != expected.name:
        return False
    given = call.tool_input
    if isinstance(given, str):  # the only argument, as text
        return len(expected.arguments) == 1 and all(_same(one, given) for one in expected.arguments.values())
    return _same(expected.arguments, given)


def _same(wanted: Any, given: Any) -> bool:
    """Return whether a value is the wanted one, or one of the accepted ones."""
    match wanted:
        case OneOf(values, optional):
            return (optional and given is _MISSING) or any(_same(one, given) for one in values)
        case bool() | None:
            return given is wanted
        case str():
            return isinstance(given, str) and _standard(wanted) == _standard(given)
        case int() | float():
            return isinstance(given, int | float) and not isinstance(given, bool) and given == wanted
        case Mapping():
            if not isinstance(given, Mapping) or not given.keys() <= wanted.keys():
                return False
            return all(_same(one, given.get(name, _MISSING)) for name, one in wanted.items())
        case list() | tuple():
            long = isinstance(given, list | tuple) and len(given) == len(wanted)
            return long and all(_same(one, other) for one, other in zip(wanted, given, strict=True))
    return False


def _standard(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
