"""Drives a run while a person watches: shows its trace, and in a terminal a status line."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, Protocol, TextIO, TypeVar

from .._internal.progress import progress_to
from ..core.events import Asked, Called, Delta, Event
from ..core.log_context import run_is_shown
from ..core.run_result import RunResult
from .terminal import Live, is_seen, put
from .trace import Trace

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

    def events(self) -> AsyncGenerator[Event | Delta, None]:
        """Yield its events as they happen."""
        ...

    @property
    def result(self) -> RunResult:
        """Its result."""
        ...


async def run_traced(run: Traceable, out: TextIO | None = None) -> RunResult:
    """Drive `run`, show it on `out` (`None`: standard error), and return its result. Raises what the run raises.

    While another run is shown, the trace is buffered, and shown afterwards.
    """
    place = out or sys.stderr or io.StringIO()
    if not _ONE.acquire(blocking=False):
        kept = io.StringIO()
        try:
            return await _followed(run, Trace(kept), Live(kept))
        finally:
            _KEPT.append((place, kept.getvalue()))
            _show_kept()
    try:
        with Live(place) as live:
            return await _followed(run, Trace(place), live)
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


async def _followed(run: Traceable, trace: Trace, live: Live) -> RunResult:
    with progress_to(live.progress), run_is_shown():
        live.show("getting ready")
        run.listener = partial(_show_nested, trace=trace, live=live)
        async with aclosing(run.events()) as events:
            async for event in events:
                _show(event, trace, live)
    live.hide()
    trace.end(run.result)
    return run.result


def _show_nested(path: str, event: Event | Delta, trace: Trace, live: Live) -> None:
    live.hide()
    trace.show_nested(path, event)
    if isinstance(event, Asked):
        live.show(f"the model of {trace.name_of(path)} works")


def _show(event: Event | Delta, trace: Trace, live: Live) -> None:
    if isinstance(event, Delta) and not event.answer and not trace.answering:
        trace.show(event)
        live.text(trace.written)
        return
    live.hide()
    trace.show(event)
    if label := _pause_after(event):
        live.show(label)


def _pause_after(event: Event | Delta) -> str:
    """Return what happens after `event`, if the next event may take a while."""
    match event:
        case Asked():
            return "the model works"
        case Called(action=action):
            return f"{action.tool} works"
        case _:
            return ""
