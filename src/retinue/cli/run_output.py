"""Executes a run in the terminal, showing it as a tree or its events as JSON lines, with the options for that."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from .._internal.log_lines import TextLines
from .._internal.sync_bridge import run_to_completion
from ..core.events import Delta, Event
from ..core.log_context import ContextFilter
from ..core.run_context import current_run, run_context
from ..core.serialization import from_json, to_json
from ..core.values import StopReason
from ..display.run_display import RunDisplay, write_aside
from ..display.run_tree import View
from ..errors import DataError

if TYPE_CHECKING:
    from ..agent import Run

Command = TypeVar("Command", bound=Callable[..., Any])
EVENTS_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines and nothing else.")
VERBOSE_OPTION = click.option("-v", "--verbose", is_flag=True, help="Show prompts and replies word for word.")


def log_option(command: Command) -> Command:
    """Add `--log-level`."""
    return click.option(
        "--log-level",
        type=click.Choice(("debug", "info", "warning", "error")),
        envvar="RETINUE_LOG",
        show_envvar=True,
        expose_value=False,
        callback=_set_level,
        help="Log to standard error, with run and step ids.",
    )(command)


def _set_level(context: click.Context, option: click.Parameter, level: str | None) -> None:
    """Log from this level on. Without one, warnings are shown as messages."""
    if level is None:
        return
    handler = _AboveTheTree()
    handler.setFormatter(TextLines())
    handler.addFilter(ContextFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("retinue").setLevel(level.upper())


class _AboveTheTree(logging.Handler):
    """Writes records to standard error, where they do not disturb what shows a run."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write_aside(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)


def run_and_show(run: Run, *, as_json: bool = False, view: View = View()) -> int:
    """Run to the end while showing progress. Return 0 for an answer, 1 for none, 130 for Ctrl-C."""
    with suppress(KeyboardInterrupt):
        run_to_completion(_print_events(run) if as_json else show_run(run, view))
    if run.result.stop_reason is StopReason.CANCELLED:
        return 130
    return 0 if run.result.answered else 1


async def _print_events(run: Run) -> None:
    def listen(path: str, event: Event | Delta) -> None:
        if not isinstance(event, Delta):
            click.echo(event_line(path, event, time.time()))

    with _stopped_by_ctrl_c(run):
        run.listener = listen
        await run.finish()


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
        with suppress(NotImplementedError):  # on Windows, Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(signal.SIGINT, run.cancel)
        try:
            yield
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)


class EventLine(NamedTuple):
    """An event of the run at `path` (call ids; empty at the top), `at` this time in Unix seconds (0: unknown)."""

    path: str
    event: Event
    at: float = 0.0


def event_line(path: str, event: Event, at: float) -> str:
    """Return an event as a line: its kind and fields, the time, and the path of calls to the member whose it is."""
    more = {"at": round(at, 3)} | ({"path": path} if path else {})
    return f"{to_json(event)[:-1]}, {json.dumps(more)[1:]}"


def read_lines(lines: Iterable[str], file: str) -> Iterator[EventLine]:
    """Yield the events of lines. Raises `DataError` that names the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                event, values = from_json(line), json.loads(line)
                path, at = values.get("path", ""), values.get("at", 0.0)
                if not isinstance(path, str) or not isinstance(at, int | float):
                    raise DataError("not a line of --json: `path` is text, and `at` is a number of seconds")
            except DataError as error:
                raise DataError(f"{file}:{number}: {error}") from error
            yield EventLine(path, event, float(at))
