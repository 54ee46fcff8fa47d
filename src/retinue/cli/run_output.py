"""Executes a run in the terminal, showing its trace or its events as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from contextlib import aclosing

import click

from .._internal.sync_bridge import run_to_completion
from ..agent import Run
from ..core.events import Delta
from ..core.serialization import to_json
from ..core.values import StopReason
from ..display.live_trace import run_traced


def run_and_show(run: Run, *, as_json: bool) -> int:
    """Run to the end while showing progress. Return 0 for an answer, 1 for none, 130 for Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        run_to_completion(_json(run) if as_json else _trace(run))
    if run.result.stop_reason is StopReason.CANCELLED:
        return 130
    return 0 if run.result.stop_reason is StopReason.ANSWER else 1


async def _json(run: Run) -> None:
    _cancel_on_ctrl_c(run)
    async with aclosing(run.events()) as events:
        async for event in events:
            if not isinstance(event, Delta):
                click.echo(to_json(event))


async def _trace(run: Run) -> None:
    _cancel_on_ctrl_c(run)
    await run_traced(run, sys.stdout)


def _cancel_on_ctrl_c(run: Run) -> None:
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, run.cancel)
