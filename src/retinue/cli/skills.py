"""`retinue skills`: lists the skills of a file of agents or of a folder, checks them, and approves them."""

from __future__ import annotations

from pathlib import Path

import click

from .._internal.pin_file import PINS, read_section
from ..config.file_check import list_skill_folders
from ..errors import UsageError
from ..harness.skills import Skill, describe_change, load_skills, pin_skills
from .option_types import PATH
from .output import table_lines

_PATH = click.argument("path", type=PATH)


@click.group("skills")
def command() -> None:
    """The skills of a file of agents, or in a folder: PATH is one of these.

    Once some are approved, in retinue.pins.json beside PATH, agents get no other skills, and none of which a file has
    changed.
    """


def _find(path: Path) -> tuple[list[Path], Path]:
    """Return the folders of the skills, and the file of approved ones."""
    if not (folders := [path] if path.is_dir() else list_skill_folders(path)):
        raise UsageError(f"{path}: its agents have no skills; name some with harness: {{skills: FOLDER}}")
    return folders, path.absolute().parent / PINS


def _compare(path: Path) -> list[tuple[Skill, str]]:
    """Return the skills, and in what each is not as it was approved."""
    folders, pins = _find(path)
    approved = read_section(pins, "skills") or {}
    return [(one, describe_change(one, pins, approved)) for one in load_skills(folders)]


@command.command("list")
@_PATH
def list_(path: Path) -> None:
    """List the skills at PATH, and whether they are approved."""
    rows = [(one.name, why.partition(":")[0] or "approved", one.description) for one, why in _compare(path)]
    for line in table_lines(("NAME", "STATE", "DESCRIPTION"), rows, fits=True):
        click.echo(line)


@command.command()
@_PATH
def check(path: Path) -> None:
    """Say what is wrong with the skills at PATH, and which are not as approved. The exit status is 0 if nothing is."""
    click.echo(f"{path}: no problems found; skills: {len(load_skills(*_find(path)))}")


@command.command()
@_PATH
@click.option("--yes", is_flag=True, help="Approve without asking.")
def pin(path: Path, yes: bool) -> int:
    """Show the skills at PATH that are new or changed, and approve them. The exit status is 0 only if all are."""
    pins, compared = _find(path)[1], _compare(path)
    if not any(why for _, why in compared):
        click.echo("already approved")
        return 0
    for one, why in compared:
        if why:
            click.echo(
                "\n    ".join([f"{one.name}: {why}", one.description, *(str(one.folder / at) for at, _ in one.files)])
            )
    if not yes and not click.confirm("Approve these?", err=True):
        return 1
    pin_skills([one for one, _ in compared], pins)
    click.echo(f"approved, in {pins}")
    return 0
