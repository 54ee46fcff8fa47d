"""`python -m conformance`: run the SDK's tests, print the counts, and write them into bench/RESULTS.md."""

from __future__ import annotations

import platform
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import click
from bench.report import replace_section

from retinue import RetinueError

from . import suite

_RESULTS = Path(__file__).parents[2] / "bench" / "RESULTS.md"


@click.command()
@click.argument("files", nargs=-1, type=click.Choice(suite.FILES))
@click.option("-k", "names", default="", help="Only tests whose names fit, as pytest's -k.")
def main(files: tuple[str, ...], names: str) -> None:
    """Run FILES of the SDK's tests, or all, and then write down the counts."""
    try:
        outcome = suite.run(files or suite.FILES, "-k", names)
    except RetinueError as error:
        raise click.ClickException(str(error)) from None
    if outcome.total("failed"):
        click.echo(outcome.said)
    click.echo(outcome.table())
    if not files and not names:
        head = f"`make conformance`, {date.today().isoformat()}, Python {platform.python_version()}, "
        replace_section(_RESULTS, "conformance", f"{head}openai {version('openai')}.\n\n{outcome.table()}")
    sys.exit(bool(outcome.total("failed")))


if __name__ == "__main__":
    main()
