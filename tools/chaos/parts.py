"""What the commands of this package share: parts that are run one by one, each with its entry in a report."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

import click

Told = Callable[[str], None]
Part = Callable[[Told], tuple[str, int]]
"""Breaks something while it tells what it does. Returns what came of it, as Markdown, and how often that is wrong."""


def parts_command(parts: Mapping[str, Part], kept: Path, write: Callable[[Mapping[str, str]], None]) -> click.Command:
    """Return a command that runs some of the parts, or all. After each, `write` renders all entries of the file
    `kept`. The exit code is 1 if anything was wrong."""

    @click.command()
    @click.argument("names", metavar="[PARTS]...", nargs=-1, type=click.Choice(list(parts)))
    def command(names: Sequence[str]) -> None:
        """Run PARTS, or all, and write down what came of them beside what is known of the others."""
        broken = 0
        for name in names or parts:
            text, wrong = parts[name](lambda said, name=name: click.echo(f"{name}: {said}"))  # type: ignore[misc]
            click.echo(text)
            broken += wrong
            entries: dict[str, str] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
            entries[name] = text
            kept.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", "utf-8")
            write(entries)
        sys.exit(bool(broken))

    return command


def made_by(command: str) -> str:
    """Return the line that says by what, and when, a report was made."""
    return f"`{command}`, {date.today().isoformat()}, Python {platform.python_version()}.\n\n"


def head(columns: Sequence[str]) -> str:
    """Return the first two lines of a table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def times(seconds: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the longest."""
    if not seconds:
        return ""
    rising = sorted(seconds)
    p99 = rising[int(0.99 * (len(rising) - 1))]
    return f"{rising[len(rising) // 2]:.2f} s (p99 {p99:.2f} s, at most {rising[-1]:.2f} s)"
