"""The reference of the command line, out of its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from retinue.cli.main import cli

_INTRO = """\
# Commands

Every command with its arguments and options, as `--help` shows them. For what they are for, see
[the command line](../cli.md).
"""


def cli_page() -> str:
    """The page of all commands."""
    return _INTRO + "".join(_command(cli, click.Context(cli, info_name="retinue"), 1))


def _command(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    if depth > 1:
        yield f"\n{'#' * depth} `{context.command_path}`\n\n"
        yield f"```text\n{command.get_usage(context)}\n```\n\n{_said(command)}\n"
        yield from _parameters(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _command(inner, click.Context(inner, parent=context, info_name=name), depth + 1)


def _said(command: click.Command) -> str:
    """Its help, of which a part that keeps its lines (`\\b`) is a block."""
    parts = (command.help or "").replace("\f", "").split("\n\n")
    return "\n\n".join(f"```text\n{part[2:].strip()}\n```" if part.startswith("\b") else part for part in parts) + "\n"


def _parameters(command: click.Command, context: click.Context) -> Iterator[str]:
    rows = [
        record
        for one in command.get_params(context)
        if "--help" not in one.opts and (record := one.get_help_record(context))
    ]
    if rows:
        yield "\n| option | |\n|---|---|\n"
        yield from (f"| `{_cell(name)}` | {_literal(_cell(says))} |\n" for name, says in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _literal(text: str) -> str:
    return re.sub(r"([\[\]<*_])", r"\\\1", text)
