"""Lines that a person types at the terminal, until whoever asks for them is interrupted.

A thread that waits for a line cannot be stopped otherwise, and would take the next line from whoever asks then.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from .terminal_echo import terminal_echo

_MOST = 65_536  # bytes of a line


class TypedLines:
    """Asks for lines in another thread; `interrupted` becomes readable when none is wanted any more."""

    def __init__(self, interrupted: int) -> None:
        self._interrupted = interrupted

    def ask(self, prompt: str) -> str:
        """Return the line typed. Raises `click.Abort` if there is no more, or none is wanted any more."""
        click.echo(f"{prompt}: ", nl=False, err=True)
        if sys.platform == "win32":  # where only sockets can be waited for
            return input()
        here = sys.stdin.fileno()
        ready, _, _ = select.select([here, self._interrupted], [], [])
        line = os.read(here, _MOST) if self._interrupted not in ready else b""
        if not line:
            click.echo(err=True)
            raise click.Abort
        return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")


@contextmanager
def typed_lines() -> Iterator[TypedLines]:
    """Lines may be asked for within the block; its end interrupts who waits for one."""
    interrupted, interrupting = os.pipe()
    try:
        with terminal_echo(on=True):
            yield TypedLines(interrupted)
    finally:
        os.close(interrupting)  # so the other end is at its end, which `select` notices
