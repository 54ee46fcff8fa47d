"""`retinue pin`: shows the tools of a file's MCP servers for approval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from ..config import load_spec
from ..config.builder import Builder
from ..config.references import list_servers
from ..errors import UsageError
from ..mcp import MCPTools
from ..mcp.tool_pins import PINS, Offer, Offered, read_pins


@click.command("pin")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--yes", is_flag=True, help="Approve without asking.")
def command(file: Path, names: tuple[str, ...], yes: bool) -> int:
    """Show the tools of FILE's MCP servers (those with these NAMES), and approve them.

    The servers are started for this. Approved tools are stored in retinue.pins.json beside FILE, each with its name,
    description and schema. An agent gets only these tools, and none that has changed since. The exit status is 0 only
    if all are approved.
    """
    spec = load_spec(file)
    there = list_servers(spec)
    if missing := [name for name in names if name not in there]:
        raise UsageError(f"{file} has no MCP server {missing[0]!r}; there are: {', '.join(there) or 'none'}")
    builder, status = Builder(spec), 0
    for name in names or there:
        server: MCPTools = builder.get(name)
        offered = server.offered()
        before = read_pins(file.parent / PINS).get(name, {})
        click.echo("\n".join(_shown(name, offered, before)))
        if {key: one.sha256 for key, one in offered.offers.items()} == {key: one.sha256 for key, one in before.items()}:
            click.echo(f"{name}: already approved")
        elif yes or click.confirm(f"Approve these {len(offered.offers)} tools of {name}?", err=True):
            server.pin(offered)
            click.echo(f"{name}: approved, in {file.parent / PINS}")
        else:
            status = 1
        server.stop()
    return status


def _shown(server: str, offered: Offered, before: Mapping[str, Offer]) -> Iterator[str]:
    for name, offer in offered.offers.items():
        new = "new" if name not in before else "" if before[name].sha256 == offer.sha256 else "CHANGED"
        notes = ", ".join(filter(None, (new, offer.effects)))
        yield f"{offer.called(server)} ({notes})"
        yield f"    {_visible(offer.description)}"
        yield f"    {_visible(json.dumps(offer.schema, ensure_ascii=False))}"
    for name, why in offered.refused.items():
        yield f"{_visible(name)}: cannot be used: {_visible(why)}"
    for name in before.keys() - offered.offers.keys():
        yield f"{name}: was approved and is not offered any more"


def _visible(text: str) -> str:
    """Return `text` with unprintable characters written as their codes."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)
