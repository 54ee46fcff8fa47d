"""What takes a while says so here; who follows a run hears it, and nobody else need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, int, int], None]  # what is going on, bytes done, bytes in all (0: not known)
_LISTENER: ContextVar[Progress | None] = ContextVar("retinue_progress", default=None)


def progress_listener() -> Progress | None:
    """Who is told of what the caller does; `None` if nobody listens."""
    return _LISTENER.get()


@contextmanager
def progress_to(progress: Progress) -> Iterator[None]:
    """Tell `progress` of what is done inside, also in tasks and threads begun there; any thread may call it."""
    before = _LISTENER.set(progress)
    try:
        yield
    finally:
        _LISTENER.reset(before)
