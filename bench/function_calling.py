"""Function calling: the embedded model under constrained decoding, and under its own chat template's tool calls.

`python -m bench.function_calling WHEEL OUT`; `pip download --no-deps bfcl-eval` fetches the wheel with the questions.
The runs are kept in OUT, so that the command can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import fmean

import click

from bench.__main__ import RESULTS
from bench.report import replace_section
from retinue import Agent, Budget, PromptModel
from retinue.core.events import Replied
from retinue.core.run_result import RunResult
from retinue.core.values import Capabilities
from retinue.evals.comparison import compute_wilson_interval
from retinue.evals.configurations import Configuration
from retinue.evals.datasets import CATEGORIES, open_bfcl
from retinue.evals.marks import count_matches, mark_run
from retinue.evals.questions import Question
from retinue.evals.study import EvalProgress, Plan, evaluate
from retinue.extend import AgentAction
from retinue.strategies.parsing.lenient_json import find_values

QUESTIONS = 300  # 100 of each category
ONCE = Budget(steps=1, early_stopping_method="force")  # what counts are the calls of the first reply


class TemplateModel(PromptModel):
    """The model with its chat template's tool calls, although the probe finds that it does not make them."""

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return the engine's abilities, with tool calls."""
        return replace(await super().abilities(), calls_tools=True)


@click.command()
@click.argument("wheel", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--first", default=QUESTIONS, show_default=True, help="How many questions; the categories take turns.")
def main(wheel: Path, out: Path, first: int) -> None:
    """Ask both, and write the section "function-calling" of RESULTS.md if all QUESTIONS are asked."""
    questions = open_bfcl(wheel).questions[:first]
    out.mkdir(parents=True, exist_ok=True)
    asked = {name: _asked(name, model, questions, out) for name, model in _models().items()}
    text = f"`python -m bench.function_calling WHEEL OUT`, {date.today().isoformat()}.\n\n{_table(questions, asked)}"
    click.echo(text)
    if first == QUESTIONS:
        replace_section(RESULTS, "function-calling", text)


def _models() -> Mapping[str, PromptModel]:
    return {"constrained": PromptModel(engine="local"), "chat template": TemplateModel(engine="local", api="chat")}


def _asked(name: str, model: PromptModel, questions: tuple[Question, ...], out: Path) -> Mapping[str, RunResult]:
    agent = Agent(model, strategy="tool_calling", budget=ONCE)
    plan = Plan(out / "answers.jsonl", report=_tell)
    return asyncio.run(evaluate(Configuration(name, agent), questions, plan)).runs


def _tell(told: EvalProgress) -> None:
    click.echo(f"\r{told.configuration}: {told.right} of {told.done} right, {told.of} to ask", nl=False, err=True)


def _table(questions: tuple[Question, ...], asked: Mapping[str, Mapping[str, RunResult]]) -> str:
    found = {
        f"{name}: calls made": {one.id: mark_run(one, runs[one.id]).right for one in questions}
        for name, runs in asked.items()
    }
    prose = {one.id: _right_in_prose(one, asked["chat template"][one.id]) for one in questions}
    found["chat template: or written as JSON in its answer"] = prose
    rows = "\n".join(f"| {name} | {' | '.join(_shares(questions, right))} |" for name, right in found.items())
    costs = "\n".join(
        f"- {name}: {fmean(run.seconds for run in runs.values()):.1f} s a question, "
        f"{fmean(run.usage.input_tokens for run in runs.values()):,.0f} tokens in "
        f"({fmean(run.usage.cached_tokens for run in runs.values()):,.0f} of them cached), "
        f"{fmean(run.usage.output_tokens for run in runs.values()):.0f} out"
        for name, runs in asked.items()
    )
    heads = " | ".join(["", *CATEGORIES, "all"])
    return f"|{heads} |\n|{'---|' * (len(CATEGORIES) + 2)}\n{rows}\n\n{costs}\n"


def _shares(questions: tuple[Question, ...], right: Mapping[str, bool]) -> Iterator[str]:
    for tag in (*CATEGORIES, None):
        its = [right[one.id] for one in questions if tag in (*one.tags, None)]
        low, high = compute_wilson_interval(sum(its), len(its))
        yield f"{fmean(its):.0%} ({100 * low:.0f}–{100 * high:.0f})"


def _right_in_prose(question: Question, run: RunResult) -> bool:
    """Return whether a run made the right calls, or wrote exactly these as JSON."""
    if mark_run(question, run).right:
        return True
    said = "".join(event.reply.text for event in run.events if isinstance(event, Replied))
    calls = [
        AgentAction(one["name"], one["arguments"])
        for found in find_values(said)
        for one in (found.value if isinstance(found.value, list) else [found.value])
        if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("arguments"), dict)
    ]
    return len(calls) == len(question.calls) == count_matches(question.calls, calls)


if __name__ == "__main__":
    main()
