"""How a tree's lines look in a place: its branches, its colours, and paragraphs that are wrapped behind branches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

from .terminal import Wrapping, cells, clean, columns, is_terminal

PLAIN, BOLD, DIM, ANSWER = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;36m"
GOOD, ODD, DOING = "\x1b[32m", "\x1b[33m", "\x1b[34m"
_LEAST = 28  # columns that are left for text behind branches
_TAB = "    "


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a tree is drawn with; all branches take three columns."""

    fork: str
    bar: str
    last: str
    result: str
    problem: str
    quote: str


_LINES = Glyphs("├─ ", "│  ", "╰─ ", "→ ", "✗ ", "┊ ")
_ASCII = Glyphs("|- ", "|  ", "`- ", "> ", "x ", ": ")
GAP = "   "


class Page:
    """The place `out`: in a terminal, lines are wrapped to its width and coloured; elsewhere they are plain text."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._coloured = is_terminal(out) and not os.environ.get("NO_COLOR")
        self.glyphs = _glyphs(out)

    @property
    def is_plain(self) -> bool:
        """Whether lines have no width here."""
        return not columns(self._out)

    def paint(self, text: str, ink: str) -> str:
        """Return `text` in a colour."""
        if not (self._coloured and ink and text.strip()):
            return text
        return f"{ink}{text}{PLAIN}"

    def begin(self, first: str, rest: str) -> Paragraph:
        """Return a paragraph behind the branches `first`, and `rest` on its further lines."""
        width = columns(self._out)
        return Paragraph(self, self._fitted(first, width), self._fitted(rest, width), width)

    def lines(self, first: str, rest: str, *pieces: tuple[str, str]) -> str:
        """Return the lines of a paragraph of texts with their colours."""
        paragraph = self.begin(first, rest)
        return "".join(paragraph.whole(text, ink) for text, ink in pieces) + "\n"

    def _fitted(self, branches: str, width: int) -> str:
        """Return the innermost branches for which there is room."""
        room = max(3, width - _LEAST)
        while width and cells(branches) > room:
            branches = branches[3:]
        return branches


class Paragraph:
    """A paragraph that is written piece by piece."""

    def __init__(self, page: Page, first: str, rest: str, width: int) -> None:
        self._page = page
        self._wrapping = Wrapping(width, cells(first), rest)
        self._rest = rest
        self._begin = first
        self._ink = ""

    def add(self, piece: str, ink: str = "") -> str:
        """Return what can be written now of a further piece."""
        self._ink = ink
        return self._first() + self._painted(self._wrapping.add(_plain(piece)))

    def whole(self, piece: str, ink: str = "") -> str:
        """Return a further piece to its last word."""
        self._ink = ink
        return self._first() + self._painted(self._wrapping.add(_plain(piece)) + self._wrapping.end())

    def end(self) -> str:
        """Return the rest of the paragraph."""
        return f"{self._first()}{self._painted(self._wrapping.end())}\n"

    def _first(self) -> str:
        begin, self._begin = self._begin, ""
        return self._page.paint(begin, DIM)

    def _painted(self, text: str) -> str:
        """Return wrapped text in its colour, and the branches before its lines in theirs."""
        before = f"\n{self._page.paint(self._rest, DIM)}"
        return before.join(self._page.paint(line, self._ink) for line in text.split(f"\n{self._rest}"))


def _plain(text: str) -> str:
    return clean(text).replace("\t", _TAB)


def _glyphs(out: TextIO) -> Glyphs:
    """Return the lines that `out` can show."""
    try:
        "├─│╰→✗┊".encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _LINES
