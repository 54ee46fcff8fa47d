"""`retinue migrate`: upgrades older files to the current version."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.migration import migrate


@click.command("migrate")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> int:
    """Upgrade FILE to the current version, in place. Comments and order are kept. An upgraded file is left
    unchanged."""
    click.echo(f"{file}: {migrate(file)}")
    return 0
