"""Drives a run while a person watches: shows it as a tree, and in a terminal what is under way."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import ParamSpec, Protocol, TextIO, TypeVar

from .._internal.progress import progress_to
from ..core.events import Delta, Event
from ..core.run_context import current_run, run_context
from ..core.run_result import RunResult
from .run_tree import View
from .status_lines import StatusLines
from .terminal import is_seen, put
from .watched_run import WatchedRun

_WATCHED: ContextVar[bool] = ContextVar("retinue_watched", default=False)
_ONE = threading.Lock()  # a terminal has room for one run at a time
_KEPT: list[tuple[TextIO, str]] = []  # buffered traces of other runs, with their output streams
P = ParamSpec("P")
T = TypeVar("T")


async def run_watched(work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`, whose caller waits for it, like a person at a terminal."""
    _WATCHED.set(is_seen(sys.stderr))
    return await work(*args, **kwargs)


def should_show(trace: bool | None) -> bool:
    """Return whether a run that starts here should be shown: as configured, or else if a person waits for it and no
    other run is shown. Runs of agents used as tools are shown in it.
    """
    waited = _WATCHED.get() and not _ONE.locked()
    _WATCHED.set(False)
    return waited if trace is None else trace


class Traceable(Protocol):
    """An object with a trace: a `Run`. `listener` hears of the events of agents that it calls."""

    listener: Callable[[str, Event | Delta], None] | None
    key: str

    def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Yield its events as they happen."""
        ...

    @property
    def result(self) -> RunResult:
        """Its result."""
        ...


async def run_traced(run: Traceable, out: TextIO | None = None, view: View = View()) -> RunResult:
    """Drive `run`, show it on `out` (`None`: standard error), and return its result. Raises what the run raises.

    While another run is shown, the trace is buffered, and shown afterwards.
    """
    place = out or sys.stderr or io.StringIO()
    if not _ONE.acquire(blocking=False):
        kept = io.StringIO()
        try:
            return await _followed(run, WatchedRun(kept, StatusLines(kept), view))
        finally:
            _KEPT.append((place, kept.getvalue()))
            _show_kept()
    try:
        with StatusLines(place) as status:
            return await _followed(run, WatchedRun(place, status, view))
    finally:
        _ONE.release()
        _show_kept()


def _show_kept() -> None:
    """Show the buffered traces, unless a run is being shown, which does so at its end."""
    while _KEPT and _ONE.acquire(blocking=False):
        try:
            while _KEPT:
                place, text = _KEPT.pop(0)
                put(place, text)
        finally:
            _ONE.release()


async def _followed(run: Traceable, watched: WatchedRun) -> RunResult:
    context = replace(current_run(), watch=partial(watched.requested, run.key))
    with progress_to(watched.status.progress), run_context(context):
        watched.status.show("", "getting ready")
        run.listener = watched.show
        async with aclosing(run.events()) as events:
            async for event in events:
                watched.show("", event)
    watched.tree.end(run.result)
    return run.result
