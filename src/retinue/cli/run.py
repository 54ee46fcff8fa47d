"""`retinue run`: answers a question with an agent of a file."""

from __future__ import annotations

from pathlib import Path

import click

from ..config.price_file import use_prices
from ..config.yaml_files import load
from ..display.run_tree import View
from .approval_prompt import decide
from .run_options import JSON_OPTION, VERBOSE_OPTION, log_option
from .run_output import run_and_show


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("question")
@click.option("--agent", help="Which agent, if the file has several that are nobody's workers.")
@VERBOSE_OPTION
@JSON_OPTION
@log_option
def command(file: Path, question: str, agent: str | None, verbose: bool, as_json: bool) -> int:
    """Answer QUESTION with an agent of FILE, and show its run as a tree.

    For an executor, the question is an action as JSON: {"tool": "NAME", "input": "…"}, or a list of these. The exit
    status is 0 only for an answer.
    """
    use_prices(beside=file)
    run = load(file, "agents", agent, human=decide).start(question)
    return run_and_show(run, as_json=as_json, view=View(verbose=verbose))
