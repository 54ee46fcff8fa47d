"""`retinue migrate`: older files, lifted to the current version."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.migration import migrate


@click.command("migrate")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> int:
    """Lift FILE to the current version, in place. Comments and order stay; done twice, nothing more changes."""
    click.echo(f"{file}: {migrate(file)}")
    return 0
