"""How far something is, while it goes on."""

from __future__ import annotations

import sys
import time

import click


class Progress:
    """One line that is rewritten in a terminal; a line now and then elsewhere. Nothing is shown of what is done
    within `patience` seconds."""

    def __init__(self, patience: float = 0.0) -> None:
        self._terminal = sys.stderr.isatty()
        self._what = ""
        self._shown = 0.0
        self._open = False
        self._begin = time.monotonic() + patience

    def show(self, what: str, share: str, *, last: bool = False) -> None:
        """`what` (of which the first word says whether it is the same as before) is going on, and is so far."""
        now, pause = time.monotonic(), 0.1 if self._terminal else 5.0
        same = what.partition(" ")[0] == self._what
        if now < self._begin or (same and now - self._shown < pause and not last):
            return
        self._what, self._shown = what.partition(" ")[0], now
        line = f"{what} {share}".rstrip()
        click.echo(f"\r\x1b[K{line}" if self._terminal else line, nl=not self._terminal, err=True)
        self._open = self._terminal

    def end(self) -> None:
        """Leave the line."""
        if self._open:
            click.echo(err=True)
