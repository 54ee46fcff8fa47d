"""The commands about files of agents: `retinue check`, `schema`, `tools`, `draw`, `lock` and `pin`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import config
from .._internal.pin_file import PINS
from ..config.agent_code import check_code
from ..config.builder import Builder, outline_group
from ..config.references import list_servers
from ..config.yaml_files import list_dependencies, select_part
from ..display.terminal import clean
from ..errors import UsageError
from .ask import load_agent
from .option_types import AGENTS, PATH
from .output import Progress, print_json

if TYPE_CHECKING:
    from ..config.agent_code import Target
    from ..mcp.tool_pins import Offer, Offered

_FILE = click.argument("file", type=PATH)
_AGENTS = click.argument("file", type=AGENTS)


@click.command("check")
@_AGENTS
def check(file: Target) -> int:
    """List all problems of FILE and of the tool files it names, one per line: FILE:LINE:COLUMN: problem.

    Of Python code, only its syntax is checked, and that it has the name after the colon. Nothing is imported, started
    or contacted. The exit status is 0 if there are no problems other than warnings.
    """
    problems = check_code(file) if file.code else config.check(file.file)
    click.echo("\n".join(map(str, problems)) or f"{file}: no problems found")
    return int(any(not problem.warning for problem in problems))


@click.command("schema")
def schema() -> int:
    """Print the JSON Schema of files of agents.

    Editors use it for completion and checks: save it, and begin a file with the line `# yaml-language-server:
    $schema=retinue.schema.json`.
    """
    print_json(config.build_json_schema())
    return 0


@click.command("tools")
@_AGENTS
@click.option("--agent", help="Which agent, if the file has several.")
def tools(file: Target, agent: str | None) -> int:
    """Show the tools of an agent of FILE exactly as the model sees them.

    The tools are loaded for this, so their Python files are imported; none is called.
    """
    from ..models.wire_format import encode_functions
    from ..strategies.prompting.prompt_parts import describe_tools
    from ..strategies.react_json import format_tools_as_json

    if file.code:
        made = load_agent(file, agent)
        name, found, strategy = made.name, list(made.tools), made.strategy.name
    else:
        spec = config.load_spec(file.file)
        name = select_part(spec, "agents", agent)
        found = Builder(spec).build_tools(name)
        params = next(one.params for one in spec.agents or () if one.name == name)
        strategy = "tool_calling" if params.role == "executor" else params.strategy or ""
    if not found:
        click.echo(f"{name} has no tools")
        return 0
    match strategy:
        case "tool_calling":
            shown = json.dumps(encode_functions(found), ensure_ascii=False, indent=2)
        case "react_json":
            shown = format_tools_as_json(found)
        case "self_ask":
            shown = describe_tools(found, "What to ask")
        case _:
            shown = describe_tools(found)
    click.echo(clean(shown))
    for tool in found:
        limit = f"{tool.timeout:g} s" if math.isfinite(tool.timeout) else "within its own budget"
        notes = [tool.effects, limit, *["with a person's approval"] * tool.approval]
        click.secho(clean(f"# {tool.name}: {', '.join(notes)} (not shown to the model)"), dim=True)
    return 0


@click.command("draw")
@_FILE
@click.option("--pipeline", help="Which pipeline, if the file has several.")
@click.option("--group", help="Which group, if the file has several or also pipelines.")
@click.option("--svg", type=PATH, help="Write an SVG file instead of printing text.")
def draw(file: Path, pipeline: str | None, group: str | None, svg: Path | None) -> int:
    """Draw a pipeline or a group of FILE without building it."""
    from ..pipelines import Node, diagram
    from ..teams import graph_diagram

    if pipeline and group:
        raise UsageError("--pipeline and --group: want one of them")
    spec = config.load_spec(file)
    if group is not None or (pipeline is None and not spec.pipelines and spec.groups):
        name = select_part(spec, "groups", group)
        outline = outline_group(next(one for one in spec.groups or () if one.name == name))
        drawn = graph_diagram.draw_svg(outline) if svg else graph_diagram.draw_text(outline)
    else:
        name = select_part(spec, "pipelines", pipeline)
        wanted = next(one for one in spec.pipelines or () if one.name == name)
        nodes = [Node(None, node.name, node.inputs) for node in wanted.nodes]
        drawn = diagram.draw_svg(nodes) if svg else diagram.draw_text(nodes)
    if svg is None:
        click.echo(clean(drawn))
        return 0
    try:
        svg.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{svg} cannot be written: {error.strerror}") from error
    click.echo(f"{svg} was written")
    return 0


@click.command("lock")
@click.argument("path", type=PATH)
@click.option("--upgrade", is_flag=True, help="Resolve locked packages again.")
def lock(path: Path, upgrade: bool) -> int:
    """Lock and install the packages (`pip_dependencies`) of the tools of PATH, a file of agents or a folder of tool
    files.

    The lock files, with each package's version and hash, are in `locked` beside the tool's file and belong under
    version control. Only locked packages are installed, from wheels, with an environment per tool in the cache folder.
    A run or a server never installs anything.
    """
    from ..tools import packages

    found = list_dependencies(path)
    for place, wanted in found.items():
        with Progress() as progress:
            if upgrade or not packages.is_locked(place, wanted):
                progress.show(f"{place.stem}: resolving {', '.join(wanted)}")
                packages.lock(place, wanted)
            progress.show(f"{place.stem}: installing")
            packages.install(place)
        count = sum("--hash=" in line for line in place.read_text("utf-8").splitlines())
        click.echo(f"{place.stem}: {count} packages, locked in {place}")
    if not found:
        click.echo(f"{path}: no tool has pip_dependencies")
    return 0


@click.command("pin")
@_FILE
@click.argument("names", nargs=-1)
@click.option("--yes", is_flag=True, help="Approve without asking.")
def pin(file: Path, names: tuple[str, ...], yes: bool) -> int:
    """Show the tools of FILE's MCP servers (those with these NAMES), and approve them.

    The servers are started for this. Approved tools are stored in retinue.pins.json beside FILE, each with its name,
    description and schema. An agent gets only these tools, and none that has changed since. The exit status is 0 only
    if all are approved.
    """
    from ..mcp.tool_pins import read_pins

    spec = config.load_spec(file)
    there = list_servers(spec)
    if missing := [name for name in names if name not in there]:
        raise UsageError(f"{file} has no MCP server {missing[0]!r}; there are: {', '.join(there) or 'none'}")
    builder, status = Builder(spec), 0
    for name in names or there:
        server = builder.get(name)
        offered = server.offered()
        before = read_pins(file.parent / PINS).get(name, {})
        click.echo("\n".join(_describe_offers(name, offered, before)))
        if {key: one.sha256 for key, one in offered.offers.items()} == {key: one.sha256 for key, one in before.items()}:
            click.echo(f"{name}: already approved")
        elif yes or click.confirm(f"Approve these {len(offered.offers)} tools of {name}?", err=True):
            server.pin(offered)
            click.echo(f"{name}: approved, in {file.parent / PINS}")
        else:
            status = 1
        server.stop()
    return status


def _describe_offers(server: str, offered: Offered, before: Mapping[str, Offer]) -> Iterator[str]:
    for name, offer in offered.offers.items():
        new = "new" if name not in before else "" if before[name].sha256 == offer.sha256 else "CHANGED"
        notes = ", ".join(filter(None, (new, offer.effects)))
        yield f"{offer.called(server)} ({notes})"
        yield f"    {_escape(offer.description)}"
        yield f"    {_escape(json.dumps(offer.schema, ensure_ascii=False))}"
    for name, why in offered.refused.items():
        yield f"{_escape(name)}: cannot be used: {_escape(why)}"
    for name in before.keys() - offered.offers.keys():
        yield f"{name}: was approved and is not offered any more"


def _escape(text: str) -> str:
    """Return `text` with unprintable characters written as their codes."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)
