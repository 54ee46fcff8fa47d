"""`retinue lock`: the packages of a file's tools, locked with their hashes and installed."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.dependencies import dependencies
from ..tools import packages
from .progress_line import Progress


@click.command("lock")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--upgrade", is_flag=True, help="Resolve anew what is locked already.")
def command(path: Path, upgrade: bool) -> int:
    """Lock and install what the tools of PATH need (`pip_dependencies`); PATH is a file of agents, or a folder
    of tool files.

    The locks, files with each package's version and hash, stand in `locked` beside the tool's file and belong
    under version control. Only wheels are installed, and only those: each tool's in an environment of its own,
    in the cache folder. A run or a server never installs anything.
    """
    found = dependencies(path)
    for lock, wanted in found.items():
        with Progress() as progress:
            if upgrade or not packages.is_locked(lock, wanted):
                progress.show(f"{lock.stem}: resolving {', '.join(wanted)}")
                packages.lock(lock, wanted)
            progress.show(f"{lock.stem}: installing")
            packages.install(lock)
        count = sum("--hash=" in line for line in lock.read_text("utf-8").splitlines())
        click.echo(f"{lock.stem}: {count} packages, locked in {lock}")
    if not found:
        click.echo(f"{path}: no tool has pip_dependencies")
    return 0
