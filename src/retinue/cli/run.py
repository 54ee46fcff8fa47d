"""`retinue run`: answers a question with an agent of a file."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.price_file import use_prices
from ..config.yaml_files import load
from .approval_prompt import decide
from .run_output import run_and_show


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("question")
@click.option("--agent", help="Which agent, if the file has several.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines and nothing else.")
def command(file: Path, question: str, agent: str | None, as_json: bool) -> int:
    """Answer QUESTION with an agent of FILE, and show its thoughts, actions and observations.

    For an executor, the question is an action as JSON: {"tool": "NAME", "input": "…"}, or a list of these. The exit
    status is 0 only for an answer.
    """
    use_prices(beside=file)
    return run_and_show(load(file, "agents", agent, human=decide).start(question), as_json=as_json)
