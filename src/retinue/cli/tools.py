"""`retinue tools`: shows an agent's tools as a model sees them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from ..config import load_spec
from ..config.builder import Builder
from ..config.yaml_files import select_part
from ..core.tools.tool import Tool
from ..display.terminal import clean
from ..models.wire_format import encode_functions
from ..strategies.prompting.prompt_parts import describe_tools
from ..strategies.react_json import format_tools_as_json


@click.command("tools")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--agent", help="Which agent, if the file has several.")
def command(file: Path, agent: str | None) -> int:
    """Show the tools of an agent of FILE exactly as the model sees them.

    The tools are loaded for this, so their Python files are imported; none is called.
    """
    spec = load_spec(file)
    name = select_part(spec, "agents", agent)
    tools = Builder(spec).build_tools(name)
    params = next(one.params for one in spec.agents or () if one.name == name)
    strategy = "tool_calling" if params.role == "executor" else params.strategy or "auto"
    if not tools:
        click.echo(f"{name} has no tools")
        return 0
    click.echo(clean(_SHOWN.get(strategy, describe_tools)(tools)))
    for tool in tools:
        limit = f"{tool.timeout:g} s" if math.isfinite(tool.timeout) else "within its own budget"
        notes = [tool.effects, limit, *["with a person's approval"] * tool.approval]
        click.secho(clean(f"# {tool.name}: {', '.join(notes)} (not shown to the model)"), dim=True)
    return 0


def _native(tools: Sequence[Tool]) -> str:
    return json.dumps(encode_functions(tools), ensure_ascii=False, indent=2)


_SHOWN: Mapping[str, Callable[[Sequence[Tool]], str]] = {
    "react_json": format_tools_as_json,
    "self_ask": lambda tools: describe_tools(tools, "What to ask"),
    "tool_calling": _native,
}
