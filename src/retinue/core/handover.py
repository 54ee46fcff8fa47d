"""Handover: whether a run that is being interrupted is continued later, or by another process.

A tool that is cancelled may have to end what it has started at another service. It must not where a server only stops:
whoever continues the run needs what was started.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_PARKS: ContextVar[Callable[[], bool]] = ContextVar("PARKS", default=lambda: False)


def enter_handover(parks: Callable[[], bool]) -> None:
    """Set what says, in the current task, whether runs that are interrupted are continued by somebody."""
    _PARKS.set(parks)


def is_continued() -> bool:
    """Whether the current run, which is being interrupted, is continued by somebody."""
    return _PARKS.get()()
