"""`retinue schema`: the JSON Schema of files of agents, for editors."""

from __future__ import annotations

import json

import click

from ..config import build_json_schema


@click.command("schema")
def command() -> int:
    """Print the JSON Schema of files of agents.

    Editors use it for completion and checks: save it, and begin a file with the line `# yaml-language-server:
    $schema=retinue.schema.json`.
    """
    click.echo(json.dumps(build_json_schema(), ensure_ascii=False, indent=2))
    return 0
