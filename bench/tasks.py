"""Ten small two-step tasks for comparing how well strategies support a small model.

`python -m bench.tasks --strategies react,planexec --out bench` runs each strategy on all tasks, stores each run
at once as a JSON line, and writes the report. Running it again continues with the missing runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import mean

import click

from bench.report import replace_section
from retinue._internal.message_text import suggest_name
from retinue.agent import Agent
from retinue.core.budgets import Budget
from retinue.core.run_result import RunResult
from retinue.core.values import AgentAction, Decision
from retinue.evals.configurations import fingerprint_setup
from retinue.evals.datasets import read_questions
from retinue.evals.kept_results import append_record, read_records
from retinue.evals.marks import count_unusable_replies, is_right
from retinue.evals.questions import Question
from retinue.models import PromptModel
from retinue.strategies import STRATEGIES
from retinue.tools import calculator, passages

BUDGET = Budget(steps=8, seconds=240)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one strategy on one task."""

    id: str
    strategy: str
    setup: str
    question: str
    answer: str
    solved: bool
    stop_reason: str
    replies: int
    unreadable: int
    seconds: float
    input_tokens: int
    output_tokens: int


def done(task: Question, result: RunResult, strategy: str, setup: str) -> Done:
    """Return the score and the costs of one run."""
    return Done(
        task.id,
        strategy,
        setup,
        task.question,
        result.answer,
        is_right(result.answer, task),
        str(result.stop_reason),
        result.usage.requests,
        count_unusable_replies(result),
        round(result.seconds, 2),
        result.usage.input_tokens,
        result.usage.output_tokens,
    )


async def evaluate(agent: Agent, given: Sequence[Question], kept: Path) -> list[Done]:
    """Run the tasks that have no result in the file `kept` from the same setup, one at a time; store each at once."""
    strategy, setup = agent.strategy.name, await fingerprint_setup(agent)
    found = {
        record.id: record for record in read_records(kept, Done) if (record.strategy, record.setup) == (strategy, setup)
    }
    for number, task in enumerate(given, 1):
        if task.id not in found:
            record = done(task, await agent.run_async(task.question), strategy, setup)
            append_record(record, kept)
            found[task.id] = record
            click.echo(_progress(number, len(given), record))
    return [found[task.id] for task in given]


def report(by_strategy: Mapping[str, Sequence[Done]], model: str) -> str:
    """Return the section for RESULTS.md, with a line for each strategy."""
    named = {f"`{strategy}`": records for strategy, records in by_strategy.items()}
    return f"Model {model}, {date.today().isoformat()}.\n\n{summary_table('strategy', named)}"


def summary_table(what: str, rows: Mapping[str, Sequence[Done]]) -> str:
    """Return a table in Markdown with a line for each of the named groups of runs; `what` heads their names."""
    head = (
        f"| {what} | solved | replies a task | unparseable replies | seconds a task | tokens a task | stop reasons |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(_row(name, records) for name, records in rows.items())


def _row(name: str, records: Sequence[Done]) -> str:
    stops = Counter(record.stop_reason for record in records)
    cells = (
        name,
        f"{sum(r.solved for r in records)} of {len(records)}",
        f"{mean(r.replies for r in records):.1f}",
        f"{sum(r.unreadable for r in records)}",
        f"{mean(r.seconds for r in records):.1f}",
        f"{mean(r.input_tokens for r in records):,.0f} in, {mean(r.output_tokens for r in records):,.0f} out",
        ", ".join(f"{reason} {count}" for reason, count in stops.most_common()),
    )
    return f"| {' | '.join(cells)} |\n"


def _progress(number: int, count: int, record: Done) -> str:
    return (
        f"{record.strategy} {number:2}/{count} {'solved' if record.solved else 'wrong '} {record.seconds:5.1f} s "
        f"{record.replies} replies | {record.question[:60]} | {record.answer[:60] or record.stop_reason}"
    )


def approving(action: AgentAction, problem: str) -> Decision:
    """Simulate the person in this evaluation, who approves every plan."""
    return Decision("approve")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()] or [one for one in STRATEGIES if one != "auto"]
    for name in names:
        if name not in STRATEGIES:
            raise click.BadParameter(f"no strategy {name!r}; {suggest_name(name, STRATEGIES)}")
    return names


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=Path("data/tasks"), show_default=True)
@click.option("--strategies", default="", help="Their names, with commas between.  [default: all]")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--model", default="", help="As for `retinue ask`.  [default: local]")
@click.option("--base-url")
def main(data: Path, strategies: str, out: Path, model: str, base_url: str | None) -> None:
    """Run strategies over the tasks in DATA and write the report into OUT/RESULTS.md."""
    names = _names(strategies)
    given = read_questions(data / "tasks.jsonl")
    tools = [passages(data / "passages.jsonl"), calculator]
    asked = PromptModel(model, base_url=base_url)
    out.mkdir(parents=True, exist_ok=True)

    async def all_of_them() -> dict[str, list[Done]]:
        found = {}
        for name in names:
            agent = Agent(asked, tools, strategy=name, budget=BUDGET, human=approving)
            found[name] = await evaluate(agent, given, out / "tasks.jsonl")
        return found

    section = report(asyncio.run(all_of_them()), asked.name)
    click.echo(section)
    replace_section(out / "RESULTS.md", "tasks", section)


if __name__ == "__main__":
    main()
