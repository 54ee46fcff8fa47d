"""`retinue skills`: lists the skills of a file of agents or of a folder, checks them, and approves them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from .._internal.pin_file import PINS, read_section
from ..config.file_check import list_skill_folders
from ..errors import DataError, UsageError
from ..harness.skills import PIN_COMMAND, Skill, describe_change, load_skills, pin_skills
from .option_types import PATH
from .output import table_lines

_PATH = click.argument("path", type=PATH)


class _Found(NamedTuple):
    skills: tuple[Skill, ...]
    pins: Path
    changes: dict[str, str]  # by skill: why it is not as it was approved


@click.group("skills")
def command() -> None:
    """The skills of a file of agents, or in a folder: PATH is one of these.

    Once some are approved, in retinue.pins.json beside PATH, agents get no other skills, and none of which a file has
    changed.
    """


def _find(path: Path) -> _Found:
    folders, pins = [path] if path.is_dir() else list_skill_folders(path), path.absolute().parent / PINS
    if not folders:
        raise UsageError(f"{path}: its agents have no skills; name some with harness: {{skills: FOLDER}}")
    skills, approved = load_skills(folders), read_section(pins, "skills", PIN_COMMAND) or {}
    return _Found(skills, pins, {one.name: why for one in skills if (why := describe_change(one, pins, approved))})


@command.command("list")
@_PATH
def list_(path: Path) -> None:
    """List the skills at PATH, and whether they are approved."""
    found = _find(path)
    states = {name: "CHANGED" if "changed" in why else "new" for name, why in found.changes.items()}
    rows = [(one.name, states.get(one.name, "approved"), str(len(one.files)), one.description) for one in found.skills]
    for line in table_lines(("NAME", "STATE", "FILES", "DESCRIPTION"), rows, ("FILES",), fits=True):
        click.echo(line)


@command.command()
@_PATH
def check(path: Path) -> None:
    """Say what is wrong with the skills at PATH, and which were changed since they were approved. The exit status is 0
    if there is nothing."""
    found = _find(path)
    if found.changes and read_section(found.pins, "skills", PIN_COMMAND) is not None:
        raise DataError("\n".join(f"{name}: {why}" for name, why in found.changes.items()))
    click.echo(f"{path}: no problems found in {len(found.skills)} skill{'s' * (len(found.skills) != 1)}")


@command.command()
@_PATH
@click.option("--yes", is_flag=True, help="Approve without asking.")
def pin(path: Path, yes: bool) -> int:
    """Show the skills at PATH that are new or changed, and approve them. The exit status is 0 only if all are."""
    found = _find(path)
    for one in found.skills:
        if one.name in found.changes:
            click.echo(f"{one.name} ({found.changes[one.name].partition('; review')[0]})\n    {one.description}")
            click.echo("".join(f"    {one.folder / file}\n" for file, _ in one.files), nl=False)
    if found.changes and not (yes or click.confirm(f"Approve these {len(found.changes)}?", err=True)):
        return 1
    pin_skills(found.skills, found.pins)
    click.echo(f"approved, in {found.pins}" if found.changes else "already approved")
    return 0
