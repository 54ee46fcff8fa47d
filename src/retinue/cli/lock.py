"""`retinue lock`: locks the packages of a file's tools with their hashes, and installs them."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.yaml_files import list_dependencies
from ..tools import packages
from .progress_line import Progress


@click.command("lock")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--upgrade", is_flag=True, help="Resolve locked packages again.")
def command(path: Path, upgrade: bool) -> int:
    """Lock and install the packages (`pip_dependencies`) of the tools of PATH, a file of agents or a folder of tool
    files.

    The lock files, with each package's version and hash, are in `locked` beside the tool's file and belong under
    version control. Only locked packages are installed, from wheels, with an environment per tool in the cache folder.
    A run or a server never installs anything.
    """
    found = list_dependencies(path)
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
