"""Executes a run in the terminal, showing it as a tree or its events as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from .._internal.sync_bridge import run_to_completion
from ..agent import Run
from ..core.events import Delta, Event
from ..core.run_context import current_run, run_context
from ..core.values import StopReason
from ..display.run_display import RunDisplay
from ..display.run_tree import View
from .event_lines import event_line


def run_and_show(run: Run, *, as_json: bool = False, view: View = View()) -> int:
    """Run to the end while showing progress. Return 0 for an answer, 1 for none, 130 for Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        run_to_completion(_json(run) if as_json else show_run(run, view))
    if run.result.stop_reason is StopReason.CANCELLED:
        return 130
    return 0 if run.result.answered else 1


async def _json(run: Run) -> None:
    with _stopped_by_ctrl_c(run):
        run.listener = _print
        await run.finish()


def _print(path: str, event: Event | Delta) -> None:
    if not isinstance(event, Delta):
        click.echo(event_line(path, event, time.time()))


async def show_run(run: Run, view: View) -> None:
    """Run to the end while showing progress; Ctrl-C stops the run. Raises `ModelError` as `Run.events` does."""
    with _stopped_by_ctrl_c(run), RunDisplay(sys.stdout, view, key=run.key) as display:
        run.listener = display
        display.end(await run.finish())


@contextmanager
def _stopped_by_ctrl_c(run: Run) -> Iterator[None]:
    """Let Ctrl-C cancel the run within the block. Log records are the run's."""
    loop = asyncio.get_running_loop()
    with run_context(current_run().of_run(run.key)):
        try:
            loop.add_signal_handler(signal.SIGINT, run.cancel)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            yield
            return
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
