"""Whether a terminal shows what is typed, which would stand in the middle of what a run writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminal_echo(*, on: bool) -> Iterator[None]:
    """Show what is typed within the block, or do not. Does nothing on Windows, and where nobody types."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    changed = termios.tcgetattr(sys.stdin)
    changed[3] = changed[3] | termios.ECHO if on else changed[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
