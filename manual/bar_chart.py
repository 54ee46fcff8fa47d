"""Bar charts as SVG that takes its colours from the page (`figure.drawn` in `assets/site.css`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

_WIDTH, _LEFT, _RIGHT = 720, 210, 60
_BAR, _GAP = 16, 12


@dataclass(frozen=True)
class Bar:
    """A bar's `value`, as the table says it in `text`; `low` and `high` of its interval, if there is one."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None


def bar_chart(title: str, groups: Sequence[Sequence[Bar]], series: Sequence[str] = (), top: float | None = None) -> str:
    """A chart of horizontal bars: each group has a bar of each of the `series`. `top` is what fills the width."""
    alone = 1 if len(groups[0]) == 1 else 0  # a series that is alone has the colour of the second
    most = top or max(max(bar.value, bar.high or 0) for group in groups for bar in group) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    parts, y = [*_legend(series)], 30 if len(series) > 1 else 6
    for group in groups:
        middle = y + (_BAR * len(group)) / 2
        parts += _label(group[0].label, middle)
        for at, bar in enumerate(group):
            parts += _bar(bar, y + at * _BAR, scale, at + alone)
        y += _BAR * len(group) + _GAP
    drawing = "".join(parts)
    return (
        f'<figure class="drawn chart"><svg role="img" aria-label="{escape(title)}" viewBox="0 0 {_WIDTH} {y}" '
        f'xmlns="http://www.w3.org/2000/svg">{drawing}</svg><figcaption>{escape(title)}</figcaption></figure>'
    )


def _label(label: str, middle: float) -> Iterator[str]:
    lines = wrap(label, 32)
    for at, line in enumerate(lines):
        y = middle + 4 + 15 * (at - (len(lines) - 1) / 2)
        yield f'<text x="{_LEFT - 10}" y="{y:.0f}" text-anchor="end">{escape(line)}</text>'


def _bar(bar: Bar, y: float, scale: float, at: int) -> Iterator[str]:
    width = max(bar.value * scale, 1)
    yield f'<rect class="bar s{at}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" rx="2"/>'
    end = _LEFT + width
    if bar.low is not None and bar.high is not None:
        left, right, middle = _LEFT + bar.low * scale, _LEFT + bar.high * scale, y + _BAR / 2 - 1
        ends = "".join(f"M{x:.1f} {middle - 3}v6" for x in (left, right))
        yield f'<path class="whisker" d="M{left:.1f} {middle}H{right:.1f}{ends}"/>'
        end = max(end, right)
    yield f'<text class="value" x="{end + 6:.1f}" y="{y + _BAR - 4}">{escape(bar.text)}</text>'


def _legend(series: Sequence[str]) -> Iterator[str]:
    if len(series) < 2:
        return
    x = _LEFT
    for at, name in enumerate(series):
        yield f'<rect class="bar s{at}" x="{x}" y="6" width="12" height="12" rx="2"/>'
        yield f'<text x="{x + 18}" y="16">{escape(name)}</text>'
        x += 40 + 7 * len(name)
