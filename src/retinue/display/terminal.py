"""Writing to a terminal: text that cannot steer it, lines of its width, and one line that comes and goes."""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from typing import Self, TextIO

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # these turn the direction of writing round
)
_WORD = re.compile(r"\s*\S+")
_UNENDED = re.compile(r"(?:\s+|^)\S*\Z|\Z")  # the word at a text's end, of which more may come
_SIGNS = "⠋⠙⠸⠴⠦⠇"
_BLINK = 0.12  # seconds between two states of a line
_WIDTH = 80  # columns, where a terminal does not say
_BAR = 20  # signs


def clean(text: str) -> str:
    """`text` without escape sequences and control characters: what a model wrote cannot steer a terminal."""
    return _CONTROL.sub("", text)


def is_seen(out: TextIO | None) -> bool:
    """Whether a person may be looking at what is written to `out`, which may be closed, or missing as in a window."""
    return out is not None and not out.closed and out.isatty()


def is_terminal(out: TextIO) -> bool:
    """Whether `out` is seen, and can rewrite its line."""
    return is_seen(out) and os.environ.get("TERM") != "dumb"


def columns(out: TextIO) -> int:
    """The width of lines written to `out`; 0, as long as they like, if it is no terminal."""
    if not is_terminal(out):
        return 0
    said = os.environ.get("COLUMNS", "")
    try:
        return int(said) if said.isdigit() and int(said) else os.get_terminal_size(out.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def cells(text: str) -> int:
    """How many columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def put(out: TextIO, text: str) -> None:
    """Write `text` at once; with question marks for what `out` cannot encode. Standard error may be closed or gone: it
    is no reason to end what is told there."""
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
    """Breaks a text that comes in pieces between its words, into lines of `width` cells (0: as they come). Lines but
    the first begin with `indent`; `used` cells of the first are taken."""

    def __init__(self, width: int, used: int = 0, indent: str = "  ") -> None:
        self._width = width
        self._indent = indent
        self._column = used
        self._held = ""

    def add(self, piece: str) -> str:
        """What can be written by now: a word is held back until it has ended."""
        text, self._held = self._held + piece, ""
        written = ""
        *whole, last = text.split("\n")
        for line in whole:
            written += self._words(line) + f"\n{self._indent}"
            self._column = cells(self._indent)
        at = _UNENDED.search(last).start() if self._width else len(last)  # type: ignore[union-attr] # it always matches
        self._held = last[at:]
        return written + self._words(last[:at])

    def end(self) -> str:
        """What is left."""
        held, self._held = self._held, ""
        return self._words(held)

    def _words(self, line: str) -> str:
        return "".join(map(self._word, _WORD.findall(line))) if self._width else line

    def _word(self, word: str) -> str:
        if self._column + cells(word) <= self._width:
            self._column += cells(word)
            return word
        word = word.lstrip()
        room = max(8, self._width - cells(self._indent))
        pieces = list(_pieces(word, room))  # of a word that is longer than a line
        self._column = cells(self._indent) + cells(pieces[-1])
        return "".join(f"\n{self._indent}{piece}" for piece in pieces)


def _pieces(word: str, room: int) -> Iterator[str]:
    while cells(word) > room:
        at = next(at for at in range(len(word), 0, -1) if cells(word[:at]) <= room)
        yield word[:at]
        word = word[at:]
    yield word


class Live:
    """A line at the bottom of a terminal that says what is going on, for how long or how much of it is done, and goes
    when something else is to be written. Where there is no terminal it does nothing. Any thread may use it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = is_terminal(out)
        self._lock = threading.Lock()
        self._measure = Measure()
        self._what = self._rest = ""
        self._began = self._drawn = 0.0
        self._signs = itertools.cycle(_SIGNS)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def show(self, what: str) -> None:
        """Say that `what` is going on, and count its seconds from now."""
        if not self._shown:
            return
        with self._lock:
            self._what, self._rest, self._began = what, "", time.monotonic()
            self._draw()
        if self._thread is None:
            self._thread = threading.Thread(target=self._count, name="retinue-live-line", daemon=True)
            self._thread.start()

    def progress(self, what: str, done: int, size: int) -> None:
        """Say that `done` of `size` bytes of something are there; a `Progress`."""
        if not self._shown:
            return
        if what != self._what:
            self.show(what)
        with self._lock:
            self._rest = self._measure.text(what, done, size) if size else ""
            if time.monotonic() - self._drawn > _BLINK:
                self._draw()

    def text(self, text: str) -> None:
        """Show the end of a text that grows."""
        with self._lock:
            self._rest = text
            if self._shown and self._what and time.monotonic() - self._drawn > _BLINK:
                self._draw()

    def hide(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._what:
                put(self._out, "\r\x1b[K")
            self._what = ""

    def _count(self) -> None:
        while not self._stopping.wait(_BLINK):
            with self._lock:
                if self._what:
                    self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        begin = f"{next(self._signs)} {self._what} {self._drawn - self._began:.0f} s"
        room = columns(self._out) - cells(begin) - 4
        rest = clean(" ".join(self._rest.split()))
        while rest and cells(rest) > max(0, room):
            rest = rest[1:]
        put(self._out, f"\r\x1b[K{begin}{f'  {rest}' if rest else ''}")


class Measure:
    """How much of something is there, how fast more comes, and how long the rest will take."""

    def __init__(self) -> None:
        self._what = ""
        self._first = (0.0, 0)

    def text(self, what: str, done: int, size: int, unit: str = "", *, now: float | None = None) -> str:
        """A bar and the figures, of `done` of `size` bytes, or of another `unit`. What begins with another word than
        before begins anew. `now` is in seconds."""
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
