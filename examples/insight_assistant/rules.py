"""The rules that the reviewer holds reports to."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 120  # words of a paragraph
_LINK = re.compile(r"\[[^\]\n]+\]\([^)\s]+\)")


def check_rules(report: str) -> str:
    """Say which rules a report in Markdown breaks, a line for each mistake."""
    return "\n".join(mistakes(report)) or "No rule is broken."


def mistakes(report: str) -> Iterator[str]:
    """Yield the mistakes of a report, with their lines."""
    lines = report.strip().splitlines()
    if not lines or not lines[0].startswith("# "):
        yield "line 1: the report begins with its title, after '# '"
    if sum(line.startswith("## ") for line in lines) < 2:
        yield "there are at least two sections, whose headings begin with '## '"
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            if not _LINK.search(text):
                yield f"line {number}: no link to a source: {text[:60]!r}"
            if len(text.split()) > LONGEST:
                yield f"line {number}: more than {LONGEST} words"
