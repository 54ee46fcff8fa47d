"""Stored runs as lines of a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..core.run_result import RunResult
from ..display.terminal import clean, count_cells, measure_width

if TYPE_CHECKING:
    from ..store.run_row import RunRow

_COLOURS = {"completed": "green", "failed": "red", "expired": "red", "incomplete": "yellow", "cancelled": "yellow"}
_WAITS = "cyan"
_LEAST = 20  # columns of a question
_LONG = 60
_RIGHT = ("TOOK", "TOKENS")


def date(seconds: int) -> str:
    """Return a time as the user's clock has it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def label(run: RunRow) -> str:
    """Return a run's status, or that it is suspended."""
    return "suspended" if run.suspended else run.status


def took(run: RunRow) -> int | None:
    """Return the seconds from a run's first drive to its end."""
    return None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at


def runs_table(found: Sequence[RunRow], questions: Mapping[str, str], *, tenants: bool) -> Iterator[str]:
    """Yield the lines of a table: as wide as the terminal, with the questions shortened."""
    if not found:
        return
    several = tenants and len({run.tenant for run in found}) > 1
    names = ["RUN", "STATUS", "AGENT", *["TENANT"] * several, "MADE", "TOOK", "TOKENS", "QUESTION"]
    rows = [_row(run, questions.get(run.id, ""), tenant=several) for run in found]
    widths = [max(count_cells(row[at]) for row in (names, *rows)) for at in range(len(names))]
    width = measure_width(sys.stdout)
    taken = sum(widths[:-1]) + 2 * (len(names) - 1)
    widths[-1] = min(widths[-1], max(_LEAST, width - taken) if width else _LONG)
    yield _line(names, names, widths)
    for run, row in zip(found, rows, strict=True):
        yield _line(row, names, widths, colour=_COLOURS.get(label(run), _WAITS))


def _row(run: RunRow, question: str, *, tenant: bool) -> list[str]:
    tokens = "" if run.usage is None else f"{run.usage.total_tokens:,}"
    seconds = took(run)
    origin = "⑂ " if run.forked_from else ""
    words = " ".join(clean(question).split())
    cut = [run.id, label(run), clean(run.agent), *[clean(run.tenant)] * tenant, date(run.created_at)]
    return [*cut, "" if seconds is None else duration(seconds), tokens, origin + words]


def duration(seconds: int) -> str:
    """Return a length of time in at most two units."""
    for size, unit, below in ((3_600, "h", "m"), (60, "m", "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size * 60 // size:02}{below}"
    return f"{seconds}s" if seconds else "<1s"


def _line(row: Sequence[str], names: Sequence[str], widths: Sequence[int], colour: str | None = None) -> str:
    shown = []
    for cell, name, width in zip(row, names, widths, strict=True):
        text = _shortened(cell, width)
        space = " " * (width - count_cells(text))
        styled = click.style(text, fg=colour) if colour and name == "STATUS" else text
        shown.append(space + styled if name in _RIGHT else styled + space)
    return "  ".join(shown).rstrip() if colour else click.style("  ".join(shown).rstrip(), bold=True)


def _shortened(text: str, width: int) -> str:
    if count_cells(text) <= width:
        return text
    while count_cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def summary_lines(run: RunRow, outcome: RunResult, members: Sequence[RunRow], forks: Sequence[RunRow]) -> Iterator[str]:
    """Yield what became of a run, a fact a line."""
    colour = _COLOURS.get(label(run), _WAITS)
    yield f"{click.style(run.id, bold=True)}  {click.style(label(run), fg=colour)}"
    for name, value in _facts(run, outcome):
        if value:
            first, *more = clean(value).splitlines() or [""]
            yield f"  {click.style(name.ljust(10), dim=True)}{first}"
            yield from (f"  {'':10}{line}" for line in more)
    for name, others in (("members", members), ("forks", forks)):
        for at, one in enumerate(others):
            step = (one.request.get("forked_from") or {}).get("step") if name == "forks" else None
            where = one.call_id if step is None else f"from step {step}"
            title = click.style((name if not at else "").ljust(10), dim=True)
            yield f"  {title}{one.id}  {label(one)}  {clean(one.agent)}  {where or ''}".rstrip()
    yield click.style(f"  retinue trace {run.id} shows all that it did", dim=True)


def _facts(run: RunRow, outcome: RunResult) -> Iterator[tuple[str, str]]:
    seconds, usage = took(run), run.usage
    yield "agent", f"{run.agent} ({run.kind} of {run.tenant})"
    yield "made", date(run.created_at) + ("" if seconds is None else f", took {duration(seconds)}")
    if usage is not None:
        steps = len(outcome.steps)
        yield "used", f"{usage.total_tokens:,} tokens, {steps} step{'s' * (steps != 1)} with tools"
    for name in ("forked_from", "imported_from"):
        if origin := run.request.get(name):
            step = f", step {origin['step']}" if "step" in origin else ""
            yield name.partition("_")[0], f"from {origin['run_id']}{step}"
    yield "question", outcome.question
    yield "answer", outcome.answer
    for one in outcome.waiting:
        yield "waits", f"for a person's decision on {one.tool} ({one.id})"
    yield "problem", run.error.message if run.error else ""
