"""The page of the benchmarks: `bench/RESULTS.md`, with charts that are drawn from its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .bar_chart import Bar, bar_chart

_INTRO = """\
# Benchmarks

What was measured, and how. Each chart is drawn from the table that follows it. Each table is written by the command
that its section names, so that you can measure again.

"""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_INTERVAL = re.compile(r"\((\d+(?:\.\d+)?)–(\d+(?:\.\d+)?)\)")


@dataclass(frozen=True)
class Chart:
    """A chart of some columns of a table: the first one under `heading` (or after the marker of that name) that has
    them. `top` is the greatest possible value; `labels` are the columns that name a row."""

    heading: str
    title: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    top: float | None = None


CHARTS = (
    Chart(
        "## Finding the passages",
        "Recall of the passages that questions need",
        ("recall@2", "recall@5"),
        ("search",),
        1,
    ),
    Chart("## Ten small tasks under each strategy", "Tasks solved, of ten", ("solved",), ("strategy",), 10),
    Chart("## The invented worlds", "careful: % right, by kind of question", ("right, second asking",), ("kind",), 100),
    Chart("## The invented worlds", "Strategies on one world: % right of 36 questions", ("right",), ("strategy",), 100),
    Chart("## Function calling", "Calls made as expected, %", ("simple", "multiple", "parallel"), ("",), 100),
    Chart(
        "## The loop beside the model",
        "CPU a step beside a loop by hand, ms",
        ("by hand, ms", "Retinue, ms"),
        ("tool calls", "steps"),
    ),
    Chart(
        "## Many runs in one process",
        "Steps a second beside a loop by hand",
        ("by hand, steps a second", "Retinue"),
        ("tool calls",),
    ),
    Chart("## Telemetry", "CPU a step with telemetry off and on, ms", ("off, ms", "on, ms"), ("runs", "steps")),
)


def benchmark_page(results: Path) -> str:
    """The page. Raises `ValueError` for a chart whose table is not there."""
    text = results.read_text(encoding="utf-8")
    for chart in CHARTS:
        text = _with_chart(text, chart)
    text = re.sub(r"^<!-- /?[\w-]+ -->\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\(\.\./docs/", "](", text)
    text = re.sub(r"^(!\[.*\]\()(\w+\.svg)", r"\1assets/\2", text, flags=re.MULTILINE)
    return _INTRO + text.partition("\n")[2].lstrip()


def _with_chart(text: str, chart: Chart) -> str:
    start = text.find(f"\n{chart.heading}\n")
    end = text.find("\n## ", start + 1)
    for found in re.finditer(r"(?:^\|.*\n)+", text[start:end], re.MULTILINE) if start >= 0 else ():
        header, _, *rows = [_cells(line) for line in found[0].splitlines()]
        if {*chart.columns, *chart.labels} <= {*header}:
            at = start + found.start()
            return f"{text[:at]}{_drawn(chart, header, rows)}\n\n{text[at:]}"
    raise ValueError(
        f"bench/RESULTS.md: no table with {chart.columns} under {chart.heading!r}, of which a chart is made"
    )


def _drawn(chart: Chart, header: list[str], rows: list[list[str]]) -> str:
    groups = []
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        label = ", ".join(cells[name].replace("`", "") for name in chart.labels)
        groups.append([_bar(label, cells[name]) for name in chart.columns])
    return bar_chart(chart.title, groups, chart.columns, chart.top)


def _bar(label: str, cell: str) -> Bar:
    number, interval = _NUMBER.search(cell), _INTERVAL.search(cell)
    if number is None:
        raise ValueError(f"bench/RESULTS.md: {cell!r} in the row {label!r} has no number, of which a chart is made")
    short = number[0] + (" %" if "%" in cell else "")
    low, high = (float(interval[1]), float(interval[2])) if interval else (None, None)
    return Bar(label, float(number[0].replace(",", "")), short, low, high)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]
