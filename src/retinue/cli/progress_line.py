"""Progress output: a single line rewritten in a terminal; occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from ..display.terminal import Measure, is_terminal, measure_width


class Progress:
    """A progress line on standard error. Work that ends within `patience` seconds shows none."""

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
        if time.monotonic() < self._begin:
            return
        pause = 0.1 if self._terminal else 5.0
        if what.split(" ")[0] == self._what and time.monotonic() - self._shown < pause and done < size:
            return
        self._what, self._shown = what.split(" ")[0], time.monotonic()
        if self._terminal:
            share = f" {self._measure.write_bar(what, done, size, unit)}" if size else ""
            click.echo(f"\r\x1b[K{what}{share}"[: measure_width(sys.stderr) + 3], nl=False, err=True)
        else:
            whole = f"{size:,} {unit}" if unit else f"{size / 1e6:,.0f} MB"
            click.echo(f"{what}{f' {done / size:4.0%} of {whole}' if size else ''}", err=True)
        self._open = self._terminal
