"""Text whose order is given although it arrives side by side: each part of a tree is written where it belongs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Section:
    """A part of a text. It has text and further sections, in the order in which they were begun.

    What is written to the first open section goes out at once. What is written to later ones waits until those before
    them are closed.
    """

    def __init__(self, write: Callable[[str], None], above: Section | None = None) -> None:
        self._write = write
        self._above = above
        self._parts: deque[str | Section] = deque()
        self._closed = False

    def write(self, text: str) -> None:
        """Add text at the end."""
        if text:
            self._parts.append(text)
            self._top()._flush()

    def begin(self) -> Section:
        """Begin a section at the end."""
        section = Section(self._write, self)
        self._parts.append(section)
        return section

    def close(self) -> None:
        """End this section and those in it: what comes after it is not held back any more."""
        self._end()
        self._top()._flush()

    def _end(self) -> None:
        self._closed = True
        for part in self._parts:
            if isinstance(part, Section):
                part._end()

    def _top(self) -> Section:
        section = self
        while section._above is not None:
            section = section._above
        return section

    def _flush(self) -> bool:
        """Write what can be written; return whether that is all of it, for good."""
        while self._parts:
            first = self._parts[0]
            if isinstance(first, str):
                self._write(first)
            elif not first._flush():
                return False
            self._parts.popleft()
        return self._closed
