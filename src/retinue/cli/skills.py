"""`retinue skills`: lists the skills of a file of agents or of a folder, checks them, and approves them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from .._internal.pin_file import PINS, read_section
from ..config.file_check import list_skill_folders
from ..errors import UsageError
from ..harness.skills import PIN_COMMAND, Skill, describe_change, find_skills, pin_skills
from .option_types import PATH
from .output import table_lines

_PATH = click.argument("path", type=PATH)


class _Found(NamedTuple):
    skills: list[Skill]
    problems: list[str]
    pins: Path
    changes: dict[str, str]  # of skills that are not as approved: why; all are new without a file of pins


@click.group("skills")
def command() -> None:
    """The skills that the agents of a file have, or that are in a folder: PATH is one of these.

    A person approves them with `pin`, in retinue.pins.json beside PATH. From then on, no agent gets a skill of which a
    file has changed.
    """


def _find(path: Path) -> _Found:
    skills, problems = find_skills([path] if path.is_dir() else list_skill_folders(path))
    if not (skills or problems):
        raise UsageError(f"{path}: its agents have no skills; name some with harness: {{skills: FOLDER}}")
    pins = path.absolute().parent / PINS
    approved = read_section(pins, "skills", PIN_COMMAND) or {}
    changes = {one.name: why for one in skills if (why := describe_change(one, pins, approved))}
    return _Found(skills, problems, pins, changes)


@command.command("list")
@_PATH
def list_(path: Path) -> None:
    """List the skills at PATH, and whether they are approved."""
    found = _find(path)
    states = {name: "CHANGED" if "changed" in why else "new" for name, why in found.changes.items()}
    rows = [(one.name, states.get(one.name, "approved"), str(len(one.files)), one.description) for one in found.skills]
    for line in table_lines(("NAME", "STATE", "FILES", "DESCRIPTION"), rows, ("FILES",), fits=True):
        click.echo(line)
    for problem in found.problems:
        click.echo(problem, err=True)


@command.command()
@_PATH
def check(path: Path) -> int:
    """List all problems of the skills at PATH, one per line. The exit status is 0 if there are none."""
    found = _find(path)
    pinned = read_section(found.pins, "skills", PIN_COMMAND) is not None
    problems = [*found.problems, *(f"{name}: {why}" for name, why in found.changes.items() if pinned)]
    for problem in problems:
        click.echo(problem)
    for one in found.skills:
        if one.unused:
            click.echo(f"{one.folder}: warning: {', '.join(one.unused)}: without effect here", err=True)
    if not problems:
        click.echo(f"{path}: no problems found in {len(found.skills)} skill{'s' * (len(found.skills) != 1)}")
    return 1 if problems else 0


@command.command()
@_PATH
@click.option("--yes", is_flag=True, help="Approve without asking.")
def pin(path: Path, yes: bool) -> int:
    """Show the skills at PATH that are new or changed, and approve them. The exit status is 0 only if all are."""
    found = _find(path)
    for problem in found.problems:
        click.echo(problem, err=True)
    for one in found.skills:
        if one.name in found.changes:
            click.echo(f"{one.name} ({found.changes[one.name].partition('; review')[0]})\n    {one.description}")
            click.echo("".join(f"    {one.folder / file}\n" for file, _ in one.files), nl=False)
    count = len(found.changes)
    if count and not (yes or click.confirm(f"Approve {count} skill{'s' * (count != 1)}?", err=True)):
        return 1
    pin_skills(found.skills, found.pins)
    click.echo(f"approved, in {found.pins}" if count else "already approved")
    return 1 if found.problems else 0
