"""`retinue init`: creates a starter folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import click

from .._internal.message_text import suggest_name
from ..errors import UsageError
from .option_types import PATH

_SUFFIXES = (".yml", ".yaml", ".py", ".md", ".csv")


class Template(NamedTuple):
    """What `init` can create: the files of these folders of `starter`. `try_it` is what to type in the new folder."""

    description: str
    try_it: str
    parts: tuple[str, ...]


TEMPLATES = {
    "script": Template(
        "an agent with a tool; a script stands in for the model, so it needs none",
        'retinue check agents.yml && retinue run agents.yml "How many people live in Paris and Lyon?"',
        ("script",),
    ),
    "folder": Template(
        "answers questions about a folder of texts",
        'retinue run agents.yml "Who drew the oldest chart in the map room?"',
        ("folder", "library"),
    ),
    "web": Template(
        "reads Wikipedia or, without a network, saved pages",
        'retinue run agents.yml --agent offline "Who designed the Arrabida bridge in Porto?"',
        ("web",),
    ),
    "data": Template(
        "analyses a CSV file with SQL",
        'retinue run agents.yml "How many lamps were sold in Braga?"',
        ("data",),
    ),
    "team": Template(
        "a supervisor who calculates, and a worker who looks things up",
        "retinue run agents.yml --agent supervisor "
        '"How much does a late book cost a day? What does a book cost that is 21 days late?"',
        ("team", "library"),
    ),
    "assistants": Template(
        "a server of OpenAI's Assistants API, and a client of it",
        "retinue serve agents.yml --api-key mine    (README.md has the client's command)",
        ("assistants", "library"),
    ),
    "coder": Template(
        "writes code in a folder and runs it in a sandbox; a script stands in for the model",
        'retinue run agents.yml "Write a function that counts words."',
        ("coder",),
    ),
    "researcher": Template(
        "looks things up, with helpers and files; a script stands in for the model",
        'retinue run agents.yml "Who drew the oldest chart in the map room?"',
        ("researcher", "library"),
    ),
}
DEFAULT = "script"  # which runs at once: most others need a model, the embedded one being a download of 1.1 GB


@click.command("init")
@click.argument("folder", type=PATH, default=Path())
@click.option("--template", default=DEFAULT, show_default=True, help=f"One of {', '.join(TEMPLATES)}.")
@click.option("--list", "list_", is_flag=True, help="Say what each template is, and write nothing.")
def command(folder: Path, template: str, *, list_: bool) -> int:
    """Create agents, what they need and a README in FOLDER (default: here). Existing files are not overwritten.

    The default template, coder and researcher run at once and without a model. The others answer with the embedded one.
    """
    if list_:
        width = max(map(len, TEMPLATES))
        for name, one in TEMPLATES.items():
            click.echo(f"{name:{width}}  {one.description}")
        return 0
    if template not in TEMPLATES:
        raise UsageError(f"no template {template!r}; {suggest_name(template, list(TEMPLATES))}")
    chosen = TEMPLATES[template]
    texts = {folder / path: text for path, text in read_template(chosen).items()}
    if there := next((path for path in texts if path.exists()), None):
        raise UsageError(f"{there} already exists; nothing was written")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    enter = "" if folder == Path() else f"cd {quote(str(folder))} && "
    click.echo(f"\nNow: {enter}{chosen.try_it}")
    if template == DEFAULT:
        click.echo("Other templates: retinue init --list")
    return 0


def read_template(template: Template) -> dict[Path, str]:
    """Return the texts of a template's files, by their paths in the new folder."""
    source = files(__package__) / "starter"
    return {path: text for part in template.parts for path, text in _read_texts(source / part, Path())}


def _read_texts(source: Traversable, folder: Path) -> Iterator[tuple[Path, str]]:
    for item in sorted(source.iterdir(), key=lambda item: item.name):
        if item.is_dir() and item.name != "__pycache__":
            yield from _read_texts(item, folder / item.name)
        elif item.name.endswith(_SUFFIXES):
            yield folder / item.name, item.read_text(encoding="utf-8")
