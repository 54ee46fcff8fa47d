"""`retinue check`: lists all problems of a file."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import check


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> int:
    """List all problems of FILE and of the tool files it names, one per line: FILE:LINE:COLUMN: problem.

    Nothing is imported, started or contacted. The exit status is 0 if there are no problems other than warnings.
    """
    problems = check(file)
    for problem in problems:
        click.echo(problem)
    if not problems:
        click.echo(f"{file}: no problems found")
    return int(any(not problem.warning for problem in problems))
