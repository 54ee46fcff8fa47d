"""`retinue ask`: answers one question with an agent and shows its run."""

from __future__ import annotations

from typing import Any

import click

from ..display.run_tree import View
from .question_agent import AgentOptions, agent_options
from .run_options import JSON_OPTION, VERBOSE_OPTION, log_option
from .run_output import run_and_show


@click.command("ask")
@click.argument("question")
@agent_options
@VERBOSE_OPTION
@JSON_OPTION
@log_option
def command(question: str, *, verbose: bool, as_json: bool, **options: Any) -> int:
    """Answer QUESTION with an agent that can calculate and, with --passages, search.

    Shows the run as a tree: what the agent thinks, does and sees in each step, what that takes, and its answer. The
    exit status is 0 only for an answer.
    """
    run = AgentOptions(**options).agent().start(question)
    return run_and_show(run, as_json=as_json, view=View(verbose=verbose))
