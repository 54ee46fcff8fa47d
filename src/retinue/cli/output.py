"""What commands print: errors, JSON, tables, and how far they are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import click

from .._internal.redaction import redact
from ..display.terminal import Measure, count_cells, is_terminal, measure_width

_LEAST, _LONG = 20, 60  # columns of what is shortened: in a narrow terminal, and in none


def show_error(message: str) -> int:
    """Print an error as one line, without secrets, and return the exit status for it."""
    click.echo(f"{click.style('retinue:', fg='red', bold=True)} {redact(message)}", err=True)
    return 2


def print_json(value: Any) -> None:
    """Print a value as JSON for people and programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table_lines(
    names: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), *, fits: bool = False
) -> Iterator[str]:
    """Yield the lines of a table, whose cells may be coloured; the columns `right` are set to the right. With `fits`,
    the last column is shortened to what the terminal has room for."""
    lines = [names, *rows]
    widths = [max(_width(row[at]) for row in lines) for at in range(len(names))]
    if fits:
        room = measure_width(sys.stdout)
        widths[-1] = min(widths[-1], max(_LEAST, room - sum(widths[:-1]) - 2 * len(widths) + 2) if room else _LONG)
    for number, row in enumerate(lines):
        cells = []
        for name, cell, width in zip(names, row, widths, strict=True):
            shown = cell if _width(cell) <= width else _shorten(cell, width)
            space = " " * (width - _width(shown))
            cells.append(space + shown if name in right else shown + space)
        line = "  ".join(cells).rstrip()
        yield line if number else click.style(line, bold=True)


def _width(cell: str) -> int:
    return count_cells(click.unstyle(cell))


def _shorten(text: str, width: int) -> str:
    while count_cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def format_date(seconds: float) -> str:
    """Return a time as the user's clock has it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


class Progress:
    """A progress line on standard error: one that is rewritten in a terminal, and one in five seconds elsewhere. Work
    that ends within `patience` seconds shows none."""

    def __init__(self, patience: float = 0.0) -> None:
        self._begin = time.monotonic() + patience
        self._terminal = is_terminal(sys.stderr)
        self._what = ""
        self._shown = 0.0
        self._open = False
        self._measure = Measure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            click.echo(err=True)

    def show(self, what: str, done: int = 0, size: int = 0, unit: str = "") -> None:
        """Show that `what` is in progress, with `done` of `size` bytes (or another `unit`)."""
        now = time.monotonic()
        name, pause = what.split(" ")[0], 0.1 if self._terminal else 5.0
        if now < self._begin or (name == self._what and now - self._shown < pause and done < size):
            return
        self._what, self._shown, self._open = name, now, self._terminal
        if self._terminal:
            share = f" {self._measure.write_bar(what, done, size, unit)}" if size else ""
            click.echo(f"\r\x1b[K{what}{share}"[: measure_width(sys.stderr) + 3], nl=False, err=True)
        else:
            whole = f"{size:,} {unit}" if unit else f"{size / 1e6:,.0f} MB"
            click.echo(f"{what}{f' {done / size:4.0%} of {whole}' if size else ''}", err=True)
