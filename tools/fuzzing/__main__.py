"""`python -m fuzzing`: try every operation of the server, and write the counts into bench/RESULTS.md."""

from __future__ import annotations

import platform
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import click
from bench.report import replace_section

from retinue import RetinueError

from . import running

_RESULTS = Path(__file__).parents[2] / "bench" / "RESULTS.md"


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--examples", default=150, show_default=True, help="Generated cases of each operation, at most.")
def main(paths: tuple[str, ...], examples: int) -> None:
    """Try the operations whose paths begin with one of PATHS, or all, and then write down the counts."""
    began = time.monotonic()
    try:
        outcome = running.run(examples, only=paths, tell=click.echo)
    except RetinueError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(outcome.said))
    click.echo(outcome.table())
    if not paths:
        head = f"`make schemathesis`, {date.today().isoformat()}, Python {platform.python_version()}, Schemathesis "
        head += f"{version('schemathesis')}, seed {running.SEED}, {time.monotonic() - began:.0f} s.\n\n"
        replace_section(_RESULTS, "schemathesis", head + outcome.table())
    sys.exit(bool(outcome.failed.total()))


if __name__ == "__main__":
    main()
