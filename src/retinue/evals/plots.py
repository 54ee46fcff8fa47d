"""Plots as inline SVG: shares with their intervals, and what a configuration takes against how often it is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ..display.terminal import clean
from .comparison import Figures, Mean, Share, Summary

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: told apart by all
_WIDTH, _LEFT, _ROW, _HIGH = 760, 230, 24, 300
_SCALE = _WIDTH - _LEFT - 70


def shares_plot(figures: Figures) -> str:
    """Draw the share that is right, of all questions and of each tag, with its interval: a row a configuration."""
    groups = {"all questions": figures.configurations, **figures.tags}
    drawn, top = [], 26
    for title, summaries in groups.items():
        drawn.append(_text(4, top, title, "font-weight='600'"))
        for at, one in enumerate(summaries):
            top += _ROW
            drawn.append(_text(16, top, f"{_short(one.name)} ({one.questions})"))
            if "right" in one.shares:
                drawn.append(_interval(one.shares["right"], top - 4, colour(at)))
        top += _ROW + 8
    return _svg("How often the answer is right, with 95% intervals", top, _axis(top - 16) + "".join(drawn))


def trade_plot(figures: Figures, amount: str, label: str) -> str:
    """Draw each configuration's mean `amount` (to the right) against the share that is right (upwards)."""
    points = [(at, one) for at, one in enumerate(figures.configurations) if amount in one.means]
    most = _round_up(max((one.means[amount].high for _, one in points), default=1.0))
    grid = "".join(_level(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    steps = "".join(_step(most * part / 4, part / 4) for part in range(5))
    dots = "".join(_point(one, one.means[amount], one.shares["right"], most, colour(at)) for at, one in points)
    caption = _text(_LEFT, _HIGH + 62, label)
    return _svg(
        f"How often the answer is right against {label}, with 95% intervals", _HIGH + 72, grid + steps + caption + dots
    )


def colour(at: int) -> str:
    """Return the colour of the configuration with this number."""
    return COLOURS[at % len(COLOURS)]


def _interval(share: Share, y: float, fill: str) -> str:
    left, middle, right = (_LEFT + one * _SCALE for one in (share.low, share.share, share.high))
    value = _text(_LEFT + _SCALE + 12, y + 4, f"{share.share:.0%}")
    return (
        f"<line x1='{left:.1f}' x2='{right:.1f}' y1='{y}' y2='{y}' stroke='{fill}' stroke-width='3'/>"
        f"<circle cx='{middle:.1f}' cy='{y}' r='5' fill='{fill}'/>{value}"
    )


def _point(one: Summary, amount: Mean, share: Share, most: float, fill: str) -> str:
    x, low, high = (_LEFT + value / most * _SCALE for value in (amount.mean, amount.low, amount.high))
    y, bottom, top = (20 + (1 - value) * _HIGH for value in (share.share, share.low, share.high))
    line = f"stroke='{fill}' stroke-width='2'"
    return (
        f"<line x1='{low:.1f}' x2='{high:.1f}' y1='{y:.1f}' y2='{y:.1f}' {line}/>"
        f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{bottom:.1f}' y2='{top:.1f}' {line}/>"
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{fill}'/>{_text(x + 8, y - 8, _short(one.name))}"
    )


def _axis(bottom: float) -> str:
    lines = []
    for part in range(5):
        x = _LEFT + part / 4 * _SCALE
        lines.append(f"<line x1='{x}' x2='{x}' y1='10' y2='{bottom}' stroke='currentColor' stroke-opacity='0.15'/>")
        lines.append(_text(x - 10, bottom + 14, f"{part / 4:.0%}"))
    return "".join(lines)


def _level(share: float) -> str:
    y = 20 + (1 - share) * _HIGH
    line = f"<line x1='{_LEFT}' x2='{_LEFT + _SCALE}' y1='{y}' y2='{y}' stroke='currentColor' stroke-opacity='0.15'/>"
    return line + _text(_LEFT - 46, y + 4, f"{share:.0%}")


def _step(value: float, part: float) -> str:
    return _text(_LEFT + part * _SCALE - 8, _HIGH + 40, f"{value:,.4g}")


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(clean(text))}</text>"


def _svg(title: str, height: float, inside: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height:.0f}' role='img' "
        f"font-family='sans-serif' font-size='12' fill='currentColor'><title>{escape(title)}</title>{inside}</svg>"
    )


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _round_up(value: float) -> float:
    """Return the next number of the form 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    steps: Sequence[float] = (1, 2, 4, 5, 8, 10)
    return float(next(step for step in steps if step * power >= value * 0.9999) * power)
