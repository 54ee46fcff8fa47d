"""`retinue ask`: answers one question with an agent and shows its trace."""

from __future__ import annotations

from pathlib import Path

import click

from ..agent import Agent
from ..config.price_file import use_prices
from ..core.budgets import Budget
from ..core.tool import Tool
from ..errors import UsageError
from ..models import PromptModel
from ..strategies import STRATEGIES
from ..strategies.auto import preset, usual_steps
from ..tools import calculator, passages
from ..tools.passages import Rank
from .approval_prompt import decide
from .run_output import run_and_show

_STRATEGY = "[default: careful for the embedded model or a GGUF file with --passages, else auto]"
_STEPS = f"[default: {usual_steps('careful')} with careful, else {usual_steps('auto')}]"


@click.command("ask")
@click.argument("question")
@click.option("--passages", "path", type=click.Path(path_type=Path), help="JSONL file or folder of texts to search.")
@click.option("--rank", is_flag=True, help="Also rank what is found by its meaning (extra rank, model minilm).")
@click.option("--model", default="", help="local, a name, ENGINE:NAME, or a GGUF file.  [default: local]")
@click.option("--base-url", help="An OpenAI-compatible server, e.g. http://127.0.0.1:8080")
@click.option("--strategy", help=f"One of {', '.join(STRATEGIES)}.  {_STRATEGY}")
@click.option("--require-human-feedback", "ask_me", is_flag=True, help="Ask before each use of a tool.")
@click.option("--max-steps", type=click.IntRange(1), help=f"Replies of the model.  {_STEPS}")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Time for the whole run.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens for the whole run, in and out.")
@click.option("--stream/--no-stream", default=True, help="Receive the model's reply as a stream or at once.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines and nothing else.")
def command(
    question: str,
    path: Path | None,
    rank: bool,
    model: str,
    base_url: str | None,
    strategy: str | None,
    ask_me: bool,
    max_steps: int | None,
    max_seconds: float | None,
    max_tokens: int | None,
    stream: bool,
    as_json: bool,
) -> int:
    """Answer QUESTION with an agent that can calculate and, with --passages, search.

    Shows the agent's thoughts, actions and observations, then its answer. The exit status is 0 only for an answer.
    """
    if rank and not path:
        raise UsageError("--rank needs --passages, whose results it ranks")
    tools: list[Tool] = [passages(path, rank=_ranked() if rank else None), calculator] if path else [calculator]
    use_prices()
    answering = PromptModel(model, base_url=base_url, stream=stream)
    if strategy is None:
        strategy = preset(answering.engine, searches=path is not None)
    agent = Agent(
        answering,
        tools,
        strategy=strategy,
        budget=Budget(max_steps or usual_steps(strategy), max_seconds, max_tokens),
        human=decide,
        require_human_feedback=ask_me,
    )
    return run_and_show(agent.start(question), as_json=as_json)


def _ranked() -> Rank:
    """Return the ranking of passages by meaning. Raises `UsageError` if its model is not installed."""
    from ..components import Ranker

    ranker = Ranker("minilm")
    return lambda query, found: ranker.run(query, found)["documents"]
