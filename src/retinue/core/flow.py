"""Advances a strategy's generator by one step."""

from __future__ import annotations

from ..errors import UsageError
from .protocols import Flow, Request, Sent
from .values import AgentFinish


def advance(flow: Flow, sent: Sent | None) -> Request | AgentFinish:
    """Send `sent` (`None` at the start) and return the next request or the final result.

    Raises `UsageError` if the strategy does not return an `AgentFinish`.
    """
    try:
        return next(flow) if sent is None else flow.send(sent)
    except StopIteration as stop:
        if not isinstance(stop.value, AgentFinish):
            raise UsageError(f"the strategy returned a {type(stop.value).__name__}; want an AgentFinish") from None
        return stop.value
