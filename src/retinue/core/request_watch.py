"""Lets a person who watches a run see its requests to models as they are sent, with what no log has: constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .prompt import Ask

Watch = Callable[[str, Ask], None]
"""Is called with the key of a run, such as `log_context` has it, and its request."""
_watch: ContextVar[Watch | None] = ContextVar("retinue_request_watch", default=None)


def request_watch() -> Watch | None:
    """Return who watches the requests of the current task."""
    return _watch.get()


@contextmanager
def requests_to(watch: Watch) -> Iterator[None]:
    """Show the requests within the block to `watch`."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)
