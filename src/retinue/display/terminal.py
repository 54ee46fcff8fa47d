"""Terminal output: sanitized text, wrapped lines, figures of progress, and how a tree's lines look in a place: its
branches, its colours, and paragraphs that are wrapped behind branches.
"""

from __future__ import annotations

import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TextIO

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # these change the text direction
)
_WORD = re.compile(r"\s*\S+")
_UNENDED = re.compile(r"(?:\s+|^)\S*\Z|\Z")  # the last word, which may be incomplete
# The beginning of an escape sequence at the end, if there is one; none is waited for that never ends.
_BEGUN = re.compile(r"(?:\x1b(?:\[[0-9;?]{0,20}[ -/]{0,5}|\][^\x07\x1b]{0,200}\x1b?)?)?\Z")
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


def can_write(out: TextIO, text: str) -> bool:
    """Return whether `out` can encode `text`."""
    try:
        text.encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


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


class Glyphs(NamedTuple):
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
        self.glyphs = _LINES if can_write(out, "".join(_LINES)) else _ASCII

    @property
    def is_plain(self) -> bool:
        """Whether lines have no width here."""
        return not measure_width(self._out)

    def paint(self, text: str, ink: str) -> str:
        """Return `text` in a colour."""
        return f"{ink}{text}{PLAIN}" if self._coloured and ink and text.strip() else text

    def begin(self, first: str, rest: str) -> Paragraph:
        """Return a paragraph behind the branches `first`, and `rest` on its further lines: the innermost of them for
        which there is room."""
        width = measure_width(self._out)
        room = max(3, width - _LEAST)
        while width and count_cells(first) > room:
            first = first[3:]
        while width and count_cells(rest) > room:
            rest = rest[3:]
        return Paragraph(width, first, rest, self.paint)

    def wrap_paragraph(self, first: str, rest: str, *pieces: tuple[str, str]) -> str:
        """Return the lines of a paragraph of texts with their colours."""
        paragraph = self.begin(first, rest)
        return "".join(paragraph.add(text, ink, whole=True) for text, ink in pieces) + "\n"


class Paragraph:
    """Text that comes in pieces, wrapped at words into lines of `width` cells (0: unchanged).

    `first` stands before its first line, and `rest` before the others. `paint` colours a text.
    """

    def __init__(
        self, width: int, first: str = "", rest: str = "  ", paint: Callable[[str, str], str] = lambda text, ink: text
    ) -> None:
        self._width = width
        self._begin = first
        self._rest = rest
        self._paint = paint
        self._column = count_cells(first)
        self._held = ""
        self._ink = ""

    def add(self, piece: str, ink: str = "", *, whole: bool = False) -> str:
        """Return what can be written now; unless the piece is `whole`, its last word or escape sequence may not be, and
        is held back."""
        self._ink = ink
        text = self._held + piece
        begun = len(text)
        if not whole:
            begun = _BEGUN.search(text).start()  # type: ignore[union-attr] # it always matches
        *lines, last = clean(text[:begun]).replace("\t", _TAB).split("\n")
        at = len(last)
        if self._width and not whole:
            at = _UNENDED.search(last).start()  # type: ignore[union-attr] # it always matches
        self._held = last[at:] + text[begun:]
        begin, self._begin = self._begin, ""
        before = f"\n{self._paint(self._rest, DIM)}"
        placed = self._place_words([*lines, last[:at]])
        return self._paint(begin, DIM) + before.join(self._paint(line, ink) for line in placed)

    def end(self) -> str:
        """Return the rest of the paragraph."""
        return self.add("", self._ink, whole=True) + "\n"

    def _place_words(self, lines: Sequence[str]) -> list[str]:
        """Return the ends of what is on the current line, and further lines."""
        placed = [""]
        for number, line in enumerate(lines):
            if number:
                placed.append("")
                self._column = count_cells(self._rest)
            for word in _WORD.findall(line) if self._width else [line]:
                if not self._width or self._column + count_cells(word) <= self._width:
                    placed[-1] += word
                    self._column += count_cells(word)
                else:
                    placed += _break_word(word.lstrip(), max(8, self._width - count_cells(self._rest)))
                    self._column = count_cells(self._rest) + count_cells(placed[-1])
        return placed


def _break_word(word: str, room: int) -> Iterator[str]:
    while count_cells(word) > room:
        at = next(at for at in range(len(word), 0, -1) if count_cells(word[:at]) <= room)
        yield word[:at]
        word = word[at:]
    yield word
