"""`retinue trace`: shows a past run as a tree, from a server's database or from lines that `--json` printed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from ..core.events import Called, Event, Paused, Started
from ..core.run_result import fold_result
from ..display.run_display import RunDisplay
from ..display.run_tree import RunTree, View
from ..display.terminal import put
from ..errors import UsageError
from .event_lines import EventLine, event_line, read_lines
from .run_options import JSON_OPTION, VERBOSE_OPTION, log_option
from .server_database import DB_OPTION
from .stored_run import stored_run

_ID = re.compile(r"(?:run|resp|chatcmpl)[_-]([0-9a-f]{24})(?:x\d{1,4})?")
Lines = Iterable[EventLine]
Show = Callable[[str, Event, float], None]


@click.command("trace")
@click.argument("run", metavar="RUN")
@DB_OPTION
@click.option("--follow", is_flag=True, help="Go on as long as the run does.")
@click.option("--step", type=click.IntRange(0), help="Only this step, with the members that it called.")
@VERBOSE_OPTION
@JSON_OPTION
@log_option
def command(run: str, db: str, follow: bool, step: int | None, verbose: bool, as_json: bool) -> int:
    """Show RUN as a tree: a run of a server, by its id, or a file of lines that --json printed (- for standard input).

    The server may be running. The id may also be that of the run's response or chat completion. With --verbose, texts
    are shown in full, and prompts and replies word for word.
    """
    stored = _ID.fullmatch(run)
    if stored is None:
        if follow:
            raise UsageError("--follow is for a run of a server, by its id")
        title, lines = "", _of_file(run)
    else:
        title, lines = stored_run(f"run_{stored[1]}", db, follow=follow)
    chosen = lines if step is None else _of_step(lines, step)
    if as_json:
        for line in chosen:
            click.echo(event_line(*line))
    else:
        _show(chosen, View(0 if verbose else View().most, verbose), title, live=follow)
    return 0


def _show(lines: Lines, view: View, title: str, *, live: bool) -> None:
    """Show the events of a run and of its members as a tree; `live`: with what is under way."""
    if not live:
        _show_in(lines, RunTree(sys.stdout, partial(put, sys.stdout), view), title)
        return
    with RunDisplay(sys.stdout, view, asks=False) as display:
        _show_in(lines, display.tree, title, display)


def _show_in(lines: Lines, tree: RunTree, title: str = "", show: Show | None = None) -> None:
    """Show the events of a run and of its members in `tree`, which `show` does if it is given."""
    top: list[Event] = []
    times: list[float] = []
    tree.write_head(title)
    for path, event, at in lines:
        (show or tree.show)(path, event, at)
        times.append(at)
        if not path:
            top.append(event)
    if not times:
        raise UsageError("the run has no events yet")
    tree.end(fold_result(top, max(times) - min(times)))


def _of_file(name: str) -> Lines:
    if name == "-":
        return read_lines(sys.stdin, "standard input")
    path = Path(name)
    if not path.exists() or path.is_dir():
        raise UsageError(f"{name} is neither the id of a run (run_…, resp_… or chatcmpl-…) nor a file of events")
    return list(read_lines(path.read_text(encoding="utf-8").splitlines(), name))


def _of_step(lines: Lines, step: int) -> Iterator[EventLine]:
    """Yield the events of one step, and of the members that it called; with the last step, the run's end. Raises
    `UsageError` if there is no such step."""
    calls: set[str] = set()
    steps: set[int] = set()
    now = 0  # the step of the run's last event that belongs to one
    for line in lines:
        if line.path:
            chosen = line.path.split("/")[0] in calls
        else:
            now = getattr(line.event, "step", now)
            steps.add(now)
            chosen = now == step and not isinstance(line.event, Started)
        if chosen and not line.path and isinstance(line.event, Called | Paused):
            calls.add(line.event.action.id)
        if chosen:
            yield line
    if step not in steps:
        raise UsageError(f"the run has no step {step}; it has {_span(steps - {0})}")


def _span(steps: set[int]) -> str:
    return f"the steps {min(steps)} to {max(steps)}" if steps else "none"
