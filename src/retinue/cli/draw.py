"""`retinue draw`: draws a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import load_spec
from ..config.yaml_files import chosen
from ..display.terminal import clean
from ..errors import UsageError
from ..pipelines import Node, diagram


@click.command("draw")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pipeline", help="Which pipeline, if the file has several.")
@click.option("--svg", type=click.Path(path_type=Path), help="Write an SVG file instead of printing text.")
def command(file: Path, pipeline: str | None, svg: Path | None) -> int:
    """Draw a pipeline of FILE without building it."""
    spec = load_spec(file)
    name = chosen(spec, "pipelines", pipeline)
    found = next(one for one in spec.pipelines or () if one.name == name)
    nodes = [Node(None, node.name, node.inputs) for node in found.nodes]
    if svg is None:
        click.echo(clean(diagram.text(nodes)))
        return 0
    try:
        svg.write_text(diagram.svg(nodes), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{svg} cannot be written: {error.strerror}") from error
    click.echo(f"{svg} was written")
    return 0
