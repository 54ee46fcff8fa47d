"""Questions for a team of two workers, of which one looks things up and the other calculates.

`python -m bench.teams --out bench` asks the ten questions of `questions.jsonl`, stores each run at once as a
JSON line, and writes the report. Running it again continues with the missing ones. `--split test` asks the five
questions of `test_questions.jsonl`, which nothing was chosen by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import click

from bench.report import replace_section
from bench.tasks import Done, evaluate, summary_table
from retinue.agent import Agent
from retinue.core.budgets import Budget
from retinue.core.protocols import Model
from retinue.core.tools.tool import Tool
from retinue.evals.datasets import read_questions
from retinue.models import PromptModel
from retinue.strategies import STRATEGIES
from retinue.tools import calculator, passages

SPLITS: Mapping[str, str] = {"questions": "questions.jsonl", "test": "test_questions.jsonl"}
BUDGET = Budget(steps=8, seconds=600)


def team(model: Model, facts: Path, strategy: str = "auto") -> Agent:
    """Return the supervisor of two workers: `archive` looks facts up in `facts`, a JSONL file of passages, and `maths`
    calculates. All use `model` and `strategy`."""
    archive = Agent(model, [passages(facts)], name="archive", strategy=strategy)
    maths = Agent(model, [calculator], name="maths", strategy=strategy)
    workers = [
        Tool("archive", archive, "looks up a fact about a person, a place or a thing. Ask it one question at a time"),
        Tool("maths", maths, "calculates. Give it the numbers, and say what to calculate with them"),
    ]
    return Agent(model, workers, name="supervisor", strategy=strategy, budget=BUDGET)


def report(by_split: Mapping[str, Sequence[Done]], model: str) -> str:
    """Return the section for RESULTS.md, with a line for each set of questions."""
    return f"Model {model}, {date.today().isoformat()}.\n\n{summary_table('questions', by_split)}"


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=Path("data/teams"), show_default=True)
@click.option("--split", "splits", type=click.Choice(list(SPLITS)), multiple=True, default=list(SPLITS))
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--model", default="", help="As for `retinue ask`.  [default: local]")
@click.option("--base-url")
def main(data: Path, splits: Sequence[str], strategy: str, out: Path, model: str, base_url: str | None) -> None:
    """Ask a team the questions in DATA and write the report into OUT/RESULTS.md."""
    asked = PromptModel(model, base_url=base_url)
    supervisor = team(asked, data / "passages.jsonl", strategy)
    given = {split: read_questions(data / SPLITS[split]) for split in splits}
    out.mkdir(parents=True, exist_ok=True)

    async def all_of_them() -> dict[str, list[Done]]:
        return {split: await evaluate(supervisor, given[split], out / "teams.jsonl") for split in splits}

    section = report(asyncio.run(all_of_them()), asked.name)
    click.echo(section)
    replace_section(out / "RESULTS.md", "teams", section)


if __name__ == "__main__":
    main()
