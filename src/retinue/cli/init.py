"""`retinue init`: creates a starter folder."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from ..errors import UsageError

_SUFFIXES = (".yml", ".yaml", ".py", ".md")


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def command(folder: Path) -> int:
    """Create an agent, a tool and a README in FOLDER (default: here). Existing files are not overwritten.

    The agent runs at once and without a model: a script takes its place.
    """
    texts = dict(_texts(files(__package__) / "starter", folder))
    there = [path for path in texts if path.exists()]
    if there:
        raise UsageError(f"{there[0]} already exists; nothing was written")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    agents = folder / "agents.yml"
    click.echo(f'\nNow: retinue check {agents} && retinue run {agents} "How many people live in Paris and Lyon?"')
    return 0


def _texts(source: Traversable, folder: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for item in sorted(source.iterdir(), key=lambda item: item.name):
        if item.is_dir() and item.name != "__pycache__":
            found += _texts(item, folder / item.name)
        elif item.name.endswith(_SUFFIXES):
            found.append((folder / item.name, item.read_text(encoding="utf-8")))
    return found
