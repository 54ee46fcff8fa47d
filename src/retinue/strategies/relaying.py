"""Driving one strategy inside another: what it wants next, given what it was sent."""

from __future__ import annotations

from ..ports import Flow, Request, Sent
from ..schema import AgentFinish


def advanced(flow: Flow, sent: Sent | None) -> Request | AgentFinish:
    """What `flow` wants next (`sent` is `None` at its beginning), or what it came to."""
    try:
        return next(flow) if sent is None else flow.send(sent)
    except StopIteration as stop:
        finish = stop.value
        assert isinstance(finish, AgentFinish)
        return finish
