"""`retinue check`: a file's problems, all of them."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import check


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> int:
    """Say all that is wrong with FILE and the tool files it names, a line each: FILE:LINE:COLUMN: what.

    Nothing is imported, started or reached. The exit status is 0 only if nothing is wrong; a warning is not wrong.
    """
    problems = check(file)
    for problem in problems:
        click.echo(problem)
    if not problems:
        click.echo(f"{file}: nothing is wrong")
    return int(any(not problem.warning for problem in problems))
