"""Progress of slow operations, reported to whoever follows a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, int, int], None]  # current activity, bytes done, total bytes (0: unknown)
_LISTENER: ContextVar[Progress | None] = ContextVar("retinue_progress", default=None)


def find_progress_listener() -> Progress | None:
    """Return the current listener, or `None`."""
    return _LISTENER.get()


@contextmanager
def progress_to(progress: Progress) -> Iterator[None]:
    """Report progress inside the block to `progress`, also from tasks and threads started there. Thread-safe."""
    before = _LISTENER.set(progress)
    try:
        yield
    finally:
        _LISTENER.reset(before)
