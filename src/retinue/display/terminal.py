"""Terminal output: sanitized text, wrapped lines, figures of progress, and how a tree's lines look in a place: its
branches, its colours, and paragraphs that are wrapped behind branches.
"""

from __future__ import annotations

import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # these change the text direction
)
_WORD = re.compile(r"\s*\S+")
_UNENDED = re.compile(r"(?:\s+|^)\S*\Z|\Z")  # the last word, which may be incomplete
_WIDTH = 80  # default number of columns
_HEIGHT = 24  # and of lines
_BAR = 20  # characters
PLAIN, BOLD, DIM, ANSWER = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;36m"
GOOD, ODD, DOING = "\x1b[32m", "\x1b[33m", "\x1b[34m"
_LEAST = 28  # columns that are left for text behind branches
_TAB = "    "
GAP = "   "


def clean(text: str) -> str:
    """Remove escape sequences and control characters, so that a model's text cannot control the terminal."""
    return _CONTROL.sub("", text)


def is_seen(out: TextIO | None) -> bool:
    """Return whether a person may see output to `out`, which may be closed, or missing in a GUI program."""
    return out is not None and not out.closed and out.isatty()


def is_terminal(out: TextIO) -> bool:
    """Return whether `out` is visible and can rewrite its line."""
    return is_seen(out) and os.environ.get("TERM") != "dumb"


def measure_width(out: TextIO) -> int:
    """Return the width of lines on `out`; 0 (unlimited) if it is not a terminal."""
    if not is_terminal(out):
        return 0
    said = os.environ.get("COLUMNS", "")
    try:
        return int(said) if said.isdigit() and int(said) else os.get_terminal_size(out.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def measure_height(out: TextIO) -> int:
    """Return the number of lines that `out` shows at once."""
    try:
        return os.get_terminal_size(out.fileno()).lines or _HEIGHT
    except (OSError, ValueError):
        return _HEIGHT


def count_cells(text: str) -> int:
    """Return the number of columns that `text` takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def put(out: TextIO, text: str) -> None:
    """Write `text` and flush; characters that `out` cannot encode become question marks.

    A closed standard error is ignored, so that it does not end the work being reported.
    """
    try:
        try:
            out.write(text)
        except UnicodeEncodeError:
            encoding = out.encoding or "ascii"
            out.write(text.encode(encoding, "replace").decode(encoding))
        out.flush()
    except (OSError, ValueError):
        if out is not sys.stderr:
            raise


class Wrapping:
    """Wraps streamed text at words into lines of `width` cells (0: unchanged).

    All lines but the first are prefixed with `indent`; `used` cells of the first are taken.
    """

    def __init__(self, width: int, used: int = 0, indent: str = "  ") -> None:
        self._width = width
        self._indent = indent
        self._column = used
        self._held = ""

    def add(self, piece: str) -> str:
        """Return what can be written now; an incomplete word is held back."""
        text, self._held = self._held + piece, ""
        written = ""
        *whole, last = text.split("\n")
        for line in whole:
            written += self._place_words(line) + f"\n{self._indent}"
            self._column = count_cells(self._indent)
        at = _UNENDED.search(last).start() if self._width else len(last)  # type: ignore[union-attr] # it always matches
        self._held = last[at:]
        return written + self._place_words(last[:at])

    def end(self) -> str:
        """Return the rest."""
        held, self._held = self._held, ""
        return self._place_words(held)

    def _place_words(self, line: str) -> str:
        return "".join(map(self._place_word, _WORD.findall(line))) if self._width else line

    def _place_word(self, word: str) -> str:
        if self._column + count_cells(word) <= self._width:
            self._column += count_cells(word)
            return word
        word = word.lstrip()
        room = max(8, self._width - count_cells(self._indent))
        pieces = list(_break_word(word, room))  # of a word longer than a line
        self._column = count_cells(self._indent) + count_cells(pieces[-1])
        return "".join(f"\n{self._indent}{piece}" for piece in pieces)


def _break_word(word: str, room: int) -> Iterator[str]:
    while count_cells(word) > room:
        at = next(at for at in range(len(word), 0, -1) if count_cells(word[:at]) <= room)
        yield word[:at]
        word = word[at:]
    yield word


class Measure:
    """Measures progress: the amount done, the rate, and the remaining time."""

    def __init__(self) -> None:
        self._what = ""
        self._first = (0.0, 0)

    def write_bar(self, what: str, done: int, size: int, unit: str = "", *, now: float | None = None) -> str:
        """Return a progress bar with figures for `done` of `size` bytes, or of another `unit`.

        The measurement restarts if the first word of `what` changes. `now` is in seconds.
        """
        now = time.monotonic() if now is None else now
        if what.split(" ")[0] != self._what:
            self._what, self._first = what.split(" ")[0], (now, done)
        began, before = self._first
        speed = (done - before) / (now - began) if now - began > 1 else 0.0
        rate = f", {speed / 1e6:.1f} MB/s" if speed > 0 and not unit else ""
        left = f", {(size - done) / speed:.0f} s left" if speed > 0 and done < size else ""
        full = int(_BAR * min(done, size) / size)
        whole = f"{size:,} {unit}" if unit else f"{size / 1e6:,.0f} MB"
        return f"{'█' * full}{'░' * (_BAR - full)} {done / size:4.0%} of {whole}{rate}{left}"


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


class Page:
    """The place `out`: in a terminal, lines are wrapped to its width and coloured; elsewhere they are plain text."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._coloured = is_terminal(out) and not os.environ.get("NO_COLOR")
        self.glyphs = _choose_glyphs(out)

    @property
    def is_plain(self) -> bool:
        """Whether lines have no width here."""
        return not measure_width(self._out)

    def paint(self, text: str, ink: str) -> str:
        """Return `text` in a colour."""
        if not (self._coloured and ink and text.strip()):
            return text
        return f"{ink}{text}{PLAIN}"

    def begin(self, first: str, rest: str) -> Paragraph:
        """Return a paragraph behind the branches `first`, and `rest` on its further lines."""
        width = measure_width(self._out)
        return Paragraph(self, self._fit_branches(first, width), self._fit_branches(rest, width), width)

    def wrap_paragraph(self, first: str, rest: str, *pieces: tuple[str, str]) -> str:
        """Return the lines of a paragraph of texts with their colours."""
        paragraph = self.begin(first, rest)
        return "".join(paragraph.take_whole(text, ink) for text, ink in pieces) + "\n"

    def _fit_branches(self, branches: str, width: int) -> str:
        """Return the innermost branches for which there is room."""
        room = max(3, width - _LEAST)
        while width and count_cells(branches) > room:
            branches = branches[3:]
        return branches


class Paragraph:
    """A paragraph that is written piece by piece."""

    def __init__(self, page: Page, first: str, rest: str, width: int) -> None:
        self._page = page
        self._wrapping = Wrapping(width, count_cells(first), rest)
        self._rest = rest
        self._begin = first
        self._ink = ""

    def add(self, piece: str, ink: str = "") -> str:
        """Return what can be written now of a further piece."""
        self._ink = ink
        return self._take_beginning() + self._paint_lines(self._wrapping.add(_clean_text(piece)))

    def take_whole(self, piece: str, ink: str = "") -> str:
        """Return a further piece to its last word."""
        self._ink = ink
        return self._take_beginning() + self._paint_lines(self._wrapping.add(_clean_text(piece)) + self._wrapping.end())

    def end(self) -> str:
        """Return the rest of the paragraph."""
        return f"{self._take_beginning()}{self._paint_lines(self._wrapping.end())}\n"

    def _take_beginning(self) -> str:
        begin, self._begin = self._begin, ""
        return self._page.paint(begin, DIM)

    def _paint_lines(self, text: str) -> str:
        """Return wrapped text in its colour, and the branches before its lines in theirs."""
        before = f"\n{self._page.paint(self._rest, DIM)}"
        return before.join(self._page.paint(line, self._ink) for line in text.split(f"\n{self._rest}"))


def _clean_text(text: str) -> str:
    return clean(text).replace("\t", _TAB)


def _choose_glyphs(out: TextIO) -> Glyphs:
    """Return the lines that `out` can show."""
    try:
        "├─│╰→✗┊".encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _LINES
