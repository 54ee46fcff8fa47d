"""Reports: generated sections of a Markdown file, and charts as SVG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _GAP = 720, 120, 30


def replace_section(path: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- name -->` and `<!-- /name -->`, or append it with these markers."""
    section = f"<!-- {name} -->\n{text}<!-- /{name} -->"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    marked = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
    new = marked.sub(lambda _: section, old) if marked.search(old) else f"{old}\n{section}\n"
    path.write_text(new, encoding="utf-8")


def chart(points: Sequence[tuple[float, float]]) -> str:
    """Draw two rows of bars, one bar per question: F1 (0 to 1) above, seconds below."""
    longest = max((seconds for _, seconds in points), default=1.0) or 1.0
    scores = _bars([score for score, _ in points], 20, "#2a9d8f")
    times = _bars([seconds / longest for _, seconds in points], 20 + _HEIGHT + _GAP, "#e9a23b")
    height = 2 * _HEIGHT + 2 * _GAP + 10
    labels = (
        '<text x="4" y="14">F1 of each question (0 to 1)</text>'
        f'<text x="4" y="{14 + _HEIGHT + _GAP}">seconds of each question (0 to {longest:.0f})</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{labels}{scores}{times}</svg>\n'
    )


def levels(values: Sequence[tuple[str, float]], title: str) -> str:
    """Draw labeled horizontal bars for values from 0 to 1."""
    row, left, longest = 26, 190, _WIDTH - 250
    bars = [
        f'<text x="4" y="{row * at + 17}">{escape(name)}</text>'
        f'<rect x="{left}" y="{row * at + 4}" width="{share * longest:.1f}" height="{row - 8}" fill="#2a9d8f"/>'
        f'<text x="{left + share * longest + 6:.1f}" y="{row * at + 17}">{share:.2f}</text>'
        for at, (name, share) in enumerate(values, 1)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {row * (len(values) + 1) + 4}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="4" y="17">{escape(title)}</text>{"".join(bars)}</svg>\n'
    )


def _bars(shares: Sequence[float], top: int, colour: str) -> str:
    step = (_WIDTH - 8) / max(1, len(shares))
    bottom = top + _HEIGHT
    axis = f'<line x1="4" y1="{bottom}" x2="{_WIDTH - 4}" y2="{bottom}" stroke="#888"/>'
    bars = [
        f'<rect x="{4 + at * step:.1f}" y="{bottom - share * _HEIGHT:.1f}" width="{step * 0.8:.1f}" '
        f'height="{share * _HEIGHT:.1f}" fill="{colour}"/>'
        for at, share in enumerate(shares)
    ]
    return axis + "".join(bars)
