"""HotpotQA evaluation with agents that search the questions' passages: run, resume, report.

`python -m bench.hotpotqa --data data/hotpotqa --out bench` asks every question with each search method and
strategy, stores each answer at once as a JSON line, and writes the report. Running it again continues with the missing
answers.
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

from bench.report import chart, replace_section
from bench.search_methods import SEARCHES
from retinue.agent import Agent
from retinue.core.budgets import Budget
from retinue.core.protocols import Strategy
from retinue.core.run_result import RunResult
from retinue.evals.configurations import fingerprint_setup
from retinue.evals.datasets import read_questions
from retinue.evals.kept_results import append_record, read_records
from retinue.evals.marks import compute_f1, count_unusable_replies, is_exact_match
from retinue.evals.questions import Question
from retinue.models import PromptModel
from retinue.strategies.auto import find_usual_steps
from retinue.strategies.careful import Careful
from retinue.strategies.react import React

TOP_K = 3
SHORT = React(answer="as short as possible (1 to 5 words)", answer_chars=80)
# Strategies, how many replies a question may take, and ways of searching.
COMPARED: Mapping[str, tuple[Strategy, int, str]] = {
    "react, bm25": (SHORT, 6, "bm25"),
    "react, best": (SHORT, 6, "best"),
    "careful, best": (Careful(), find_usual_steps("careful"), "best"),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """The agent's answer to a question. `seconds` is the duration of the run; tokens are summed over its requests."""

    id: str
    setup: str
    question: str
    gold: str
    answer: str
    exact: bool
    f1: float
    stop_reason: str
    replies: int
    searches: int
    unreadable: int
    seconds: float
    input_tokens: int
    cached_tokens: int
    output_tokens: int


def answered(question: Question, result: RunResult, setup: str) -> Answered:
    """Return the scores and costs of one run."""
    return Answered(
        question.id,
        setup,
        question.question,
        question.gold,
        result.answer,
        is_exact_match(result.answer, question.gold),
        compute_f1(result.answer, question.gold),
        str(result.stop_reason),
        result.usage.requests,
        len(result.steps),
        count_unusable_replies(result),
        round(result.seconds, 2),
        result.usage.input_tokens,
        result.usage.cached_tokens,
        result.usage.output_tokens,
    )


async def evaluate(agent: Agent, asked: Sequence[Question], kept: Path, search: str = "bm25") -> list[Answered]:
    """Ask the questions that have no answer in the file `kept` from the same setup and search method, one at a time.

    Each answer is stored at once.
    """
    setup = await fingerprint_setup(agent, TOP_K, *(() if search == "bm25" else (search,)))
    done = {record.id: record for record in read_records(kept, Answered) if record.setup == setup}
    for number, question in enumerate(asked, 1):
        if question.id not in done:
            record = answered(question, await agent.run_async(question.question), setup)
            append_record(record, kept)
            done[question.id] = record
            click.echo(_progress(number, len(asked), record, list(done.values())))
    return [done[question.id] for question in asked]


def report(runs: Mapping[str, Sequence[Answered]], model: str) -> str:
    """Return the section for RESULTS.md, with a column for each strategy and search method."""
    columns = [_column(records) for records in runs.values()]
    rows = [f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]]
    head = f"| strategy, search | {' | '.join(runs)} |\n|---|{'---|' * len(columns)}"
    table = "\n".join([head, *rows])
    last = list(runs)[-1]
    return f"Model {model}, {date.today().isoformat()}.\n\n{table}\n\n![F1 and seconds, {last}](hotpotqa.svg)\n"


def _column(records: Sequence[Answered]) -> Mapping[str, str]:
    stops = Counter(record.stop_reason for record in records)
    return {
        "questions": f"{len(records)}",
        "exact match": f"{mean(r.exact for r in records):.1%}",
        "F1": f"{mean(r.f1 for r in records):.3f}",
        "replies a question": f"{mean(r.replies for r in records):.2f}",
        "searches a question": f"{mean(r.searches for r in records):.2f}",
        "seconds a question": f"{mean(r.seconds for r in records):.1f}",
        "tokens a question": _tokens(records),
        "unparseable replies": f"{sum(r.unreadable for r in records)}",
        "stop reasons": ", ".join(f"{reason} {count}" for reason, count in stops.most_common()),
    }


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--model", default="", help="As for `retinue ask`.  [default: local]")
@click.option("--base-url")
@click.option("--first", type=click.IntRange(1), help="Only the first so many questions; no report is written.")
@click.option("--only", type=click.Choice(list(COMPARED)), help="Only this column; no report is written.")
def main(data: Path, out: Path, model: str, base_url: str | None, first: int | None, only: str | None) -> None:
    """Evaluate agents on the questions in DATA and write the report into OUT/RESULTS.md."""
    engine = PromptModel(model, base_url=base_url)
    asked = read_questions(data / "questions.jsonl")[:first]
    out.mkdir(parents=True, exist_ok=True)
    runs = {}
    for name in [only] if only else COMPARED:
        strategy, steps, search = COMPARED[name]
        tool = SEARCHES[search](data / "passages.jsonl", TOP_K)
        agent = Agent(engine, [tool], strategy=strategy, budget=Budget(steps))
        runs[name] = asyncio.run(evaluate(agent, asked, out / "hotpotqa.jsonl", search))
    section = report(runs, engine.name)
    click.echo(section)
    if first is None and only is None:
        replace_section(out / "RESULTS.md", "hotpotqa", section)
        last = [(record.f1, record.seconds) for record in list(runs.values())[-1]]
        (out / "hotpotqa.svg").write_text(chart(last), encoding="utf-8")


def _tokens(records: Sequence[Answered]) -> str:
    read, cached = mean(r.input_tokens for r in records), mean(r.cached_tokens for r in records)
    return f"{read:,.0f} in ({cached:,.0f} of them cached), {mean(r.output_tokens for r in records):,.0f} out"


def _progress(number: int, count: int, record: Answered, so_far: Sequence[Answered]) -> str:
    return (
        f"{number:3}/{count} EM {mean(r.exact for r in so_far):.0%} F1 {mean(r.f1 for r in so_far):.2f} | "
        f"{record.seconds:5.1f} s {record.replies} replies | {record.question[:60]} | {record.gold} | {record.answer}"
    )


if __name__ == "__main__":
    main()
