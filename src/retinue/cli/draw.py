"""`retinue draw`: draws a pipeline or a group."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import load_spec
from ..config.builder import outline_group
from ..config.specs import FileSpec
from ..config.yaml_files import select_part
from ..display.terminal import clean
from ..errors import UsageError
from ..pipelines import Node, diagram
from ..teams import graph_diagram


@click.command("draw")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pipeline", help="Which pipeline, if the file has several.")
@click.option("--group", help="Which group, if the file has several or also pipelines.")
@click.option("--svg", type=click.Path(path_type=Path), help="Write an SVG file instead of printing text.")
def command(file: Path, pipeline: str | None, group: str | None, svg: Path | None) -> int:
    """Draw a pipeline or a group of FILE without building it."""
    if pipeline and group:
        raise UsageError("--pipeline and --group: want one of them")
    spec = load_spec(file)
    of_group = group is not None or (pipeline is None and not spec.pipelines and bool(spec.groups))
    drawn = _group(spec, group, svg=svg is not None) if of_group else _pipeline(spec, pipeline, svg=svg is not None)
    if svg is None:
        click.echo(clean(drawn))
        return 0
    try:
        svg.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{svg} cannot be written: {error.strerror}") from error
    click.echo(f"{svg} was written")
    return 0


def _pipeline(spec: FileSpec, name: str | None, *, svg: bool) -> str:
    name = select_part(spec, "pipelines", name)
    found = next(one for one in spec.pipelines or () if one.name == name)
    nodes = [Node(None, node.name, node.inputs) for node in found.nodes]
    return diagram.draw_svg(nodes) if svg else diagram.draw_text(nodes)


def _group(spec: FileSpec, name: str | None, *, svg: bool) -> str:
    name = select_part(spec, "groups", name)
    outline = outline_group(next(one for one in spec.groups or () if one.name == name))
    return graph_diagram.draw_svg(outline) if svg else graph_diagram.draw_text(outline)
