"""The report of an evaluation in Markdown: its tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..display.terminal import clean
from .comparison import Figures
from .report_tables import Table, tables


def markdown_report(figures: Figures, about: Sequence[str]) -> str:
    """Return the report: the lines `about` the evaluation, and all tables."""
    head = [f"# Evaluation on {_cell(figures.dataset)}", "\n".join(f"- {_cell(line)}" for line in about)]
    return "\n\n".join([*head, *map(_section, tables(figures))]) + "\n"


def _section(table: Table) -> str:
    note = f"\n\n{table.note}" if table.note else ""
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    return f"## {table.title}{note}\n\n" + "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(text: str) -> str:
    plain = " ".join(escape(clean(text), quote=False).split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[").replace("`", "\\`")
