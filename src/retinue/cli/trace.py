"""`retinue trace`: shows a past run as a tree, from a server's database or from lines that `--json` printed."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from ..core.events import Called, Event, Paused, Started
from ..core.run_result import fold_result
from ..display.run_display import RunDisplay
from ..display.run_tree import RunTree, View, format_clock_time
from ..display.terminal import put
from ..errors import UsageError
from .run_output import EVENTS_OPTION, VERBOSE_OPTION, EventLine, event_line, log_option, read_lines
from .server_database import DB_OPTION, server_database

_ID = re.compile(r"(?:run|resp|chatcmpl)[_-]([0-9a-f]{24})(?:x\d{1,4})?")
_EVERY = 0.2  # seconds between two looks at a run that goes on
Lines = Iterable[EventLine]


@click.command("trace")
@click.argument("run", metavar="RUN")
@DB_OPTION
@click.option("--follow", is_flag=True, help="Go on as long as the run does.")
@click.option("--step", type=click.IntRange(0), help="Only this step, with the members that it called.")
@VERBOSE_OPTION
@EVENTS_OPTION
@log_option
def command(run: str, db: str, follow: bool, step: int | None, verbose: bool, as_json: bool) -> int:
    """Show RUN as a tree: a run of a server, by its id, or a file of lines that --json printed (- for standard input).

    The server may be running. The id may also be that of the run's response or chat completion. With --verbose, texts
    are shown in full, and prompts and replies word for word.
    """
    stored = _ID.fullmatch(run)
    if stored is not None:
        title, lines = _read_stored(f"run_{stored[1]}", db, follow=follow)
    elif follow:
        raise UsageError("--follow is for a run of a server, by its id")
    else:
        title, lines = "", _read_file(run)
    if step is not None:
        lines = _of_step(lines, step)
    view = View(0 if verbose else View().most, verbose)
    if as_json:
        for line in lines:
            click.echo(event_line(*line))
    elif follow:
        with RunDisplay(sys.stdout, view, asks=False) as display:
            _show(lines, display.tree, title, display)
    else:
        tree = RunTree(sys.stdout, partial(put, sys.stdout), view)
        _show(lines, tree, title, tree.show)
    return 0


def _show(lines: Lines, tree: RunTree, title: str, show: Callable[[str, Event, float], None]) -> None:
    """Show the events of a run and of its members in `tree` by `show`."""
    top: list[Event] = []
    times: list[float] = []
    tree.write_head(title)
    for path, event, at in lines:
        show(path, event, at)
        times.append(at)
        if not path:
            top.append(event)
    if not times:
        raise UsageError("the run has no events yet")
    tree.end(fold_result(top, max(times) - min(times)))


def _read_file(name: str) -> Lines:
    if name == "-":
        return read_lines(sys.stdin, "standard input")
    path = Path(name)
    if not path.exists() or path.is_dir():
        raise UsageError(f"{name} is neither the id of a run (run_…, resp_… or chatcmpl-…) nor a file of events")
    return list(read_lines(path.read_text(encoding="utf-8").splitlines(), name))


def _read_stored(run_id: str, db: str, *, follow: bool) -> tuple[str, Lines]:
    """Return a title of the run, and its events, which come as long as it goes on if they are to `follow` it. Raises
    `UsageError` if there is no such run."""
    with server_database(db, read=True) as connection:
        from ..store.team_logs import find_top

        top = find_top(connection, run_id)
    if top is None:
        raise UsageError(f"the database {db.split('@')[-1]} has no run {run_id}")
    began = format_clock_time(top.created_at, "%Y-%m-%d %H:%M:%S")
    words = [top.id, top.kind, top.status.replace("_", " "), began]
    if top.tenant != "default":  # of a server that has no others
        words.append(f"tenant {top.tenant}")
    return " · ".join(words), _stored_events(run_id, db, follow=follow)


def _stored_events(run_id: str, db: str, *, follow: bool) -> Iterator[EventLine]:
    with server_database(db, read=True) as connection:
        from ..store.team_logs import TeamLogs

        logs = TeamLogs(run_id)
        while True:
            for path, entry in logs.read(connection, whole=not follow):
                yield EventLine(path, entry.event, entry.at)
            if not follow or not logs.active:
                return
            time.sleep(_EVERY)


def _of_step(lines: Lines, step: int) -> Iterator[EventLine]:
    """Yield the events of one step, and of the members that it called; with the last step, the run's end. Raises
    `UsageError` if there is no such step."""
    calls: set[str] = set()
    steps: set[int] = set()
    now = 0  # the step of the run's last event that belongs to one
    for line in lines:
        if line.path:
            if line.path.split("/")[0] in calls:
                yield line
            continue
        now = getattr(line.event, "step", now)
        steps.add(now)
        if now == step and not isinstance(line.event, Started):
            if isinstance(line.event, Called | Paused):
                calls.add(line.event.action.id)
            yield line
    if step not in steps:
        there = steps - {0}
        said = f"the steps {min(there)} to {max(there)}" if there else "none"
        raise UsageError(f"the run has no step {step}; it has {said}")
