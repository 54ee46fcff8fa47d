"""`python -m studio_report.terminal_capture`: take docs/pictures/ask.svg, a question in a terminal."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from fakes.tmux import Terminal

ROOT = Path(__file__).parents[2]
COMMAND = """\
retinue ask "Who is Olivia Wilde's boyfriend? What is his current age raised to the 0.23 power?" \\
    --passages data/demo/passages.jsonl
"""
_WIDTH, _HEIGHT = 104, 60  # of the terminal, in characters
_MOST = 1800  # seconds
_ACROSS, _DOWN, _MARGIN = 8.4, 18, 18  # pixels of a character, and around all
_COLOURS = {"32": "#8fce7e", "33": "#e5c07b", "34": "#7fb4f0", "36": "#6fd3d3"}
_CODES = re.compile(r"\x1b\[([0-9;]*)m")
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h}" role="img" font-size="14" fill="#dcdfe4" '
    "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n<title>{title}</title>\n"
    '<rect width="100%" height="100%" rx="8" fill="#1e2127"/>\n'
)


def asked() -> str:
    """What a terminal shows, with its colours, once the question is answered."""
    end = time.monotonic() + _MOST
    with Terminal(shlex.split(COMMAND.replace("\\\n", " "))[1:], width=_WIDTH, height=_HEIGHT, folder=ROOT) as terminal:
        while "\n[exit " not in terminal.shows():
            if time.monotonic() > end:
                sys.exit(f"no answer after {_MOST} seconds:\n{terminal.shows()}")
            time.sleep(1)
        shown, _, status = terminal.shows(colours=True).rpartition("[exit ")
        if not status.startswith("0]"):
            sys.exit(f"no answer:\n{shown}")
    return f"$ {COMMAND}{shown}"


def picture(shown: str) -> str:
    """Draw a terminal's text as SVG."""
    lines = shown.rstrip("\n").splitlines()
    while lines and not _CODES.sub("", lines[-1]).strip():
        lines.pop()
    size = {"w": _WIDTH * _ACROSS + 2 * _MARGIN, "h": len(lines) * _DOWN + 2 * _MARGIN}
    return "".join([_HEAD.format(**size, title=escape(COMMAND.strip())), *_texts(lines), "</svg>\n"])


def _texts(lines: list[str]) -> Iterator[str]:
    ink: set[str] = set()  # a colour goes on in the next line
    for row, line in enumerate(lines):
        column = 0
        for at, part in enumerate(_CODES.split(line)):
            if at % 2:
                ink = _changed(ink, part)
            elif part:
                if part.strip():
                    yield _text(part, column, row, ink)
                column += len(part)


def _changed(ink: set[str], codes: str) -> set[str]:
    for code in codes.split(";"):
        if code in ("", "0"):
            ink = set()
        elif code == "39":
            ink = ink - set(_COLOURS)
        else:
            ink = (ink - set(_COLOURS) if code in _COLOURS else ink) | {code}
    return ink


def _text(part: str, column: int, row: int, ink: set[str]) -> str:
    colour = next((f' fill="{_COLOURS[code]}"' for code in sorted(ink) if code in _COLOURS), "")
    look = colour + ' font-weight="bold"' * ("1" in ink) + ' opacity="0.6"' * ("2" in ink)
    x, y = _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN + 14
    wide = f'textLength="{len(part) * _ACROSS:.1f}"'
    return f'<text x="{x:.1f}" y="{y}" {wide} xml:space="preserve"{look}>{escape(part)}</text>\n'


if __name__ == "__main__":
    (into := ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    (into / "ask.svg").write_text(picture(asked()), "utf-8")
