"""The chart's version."""

from __future__ import annotations

import re
from pathlib import Path

import click


def check_chart(chart: Path, version: str) -> None:
    """Raises `ClickException` unless the chart and the program that it starts are of this version."""
    text = (chart / "Chart.yaml").read_text("utf-8")
    for name in ("version", "appVersion"):
        found = re.search(rf"^{name}: *[\"']?([^\s\"']+)", text, re.MULTILINE)
        said = found[1] if found else "nothing"
        if said != version:
            raise click.ClickException(f"{chart.name}/Chart.yaml: {name} is {said}; it should be {version}")
