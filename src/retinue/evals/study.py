"""A study: several configurations asked the same questions, judged, compared and reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from .. import __version__
from .._internal.message_text import suggest_name
from ..agent import Agent
from ..core.prices import FREE, Price, find_price
from ..core.protocols import Model
from ..errors import DataError, UsageError
from ..tools import passages
from .comparison import Figures, Run, compute_figures
from .configurations import Configuration, hash_file
from .evaluation import EvalProgress, Evaluated, Plan, evaluate
from .html_report import write_html_report
from .json_report import REPORT, build_json_report
from .judge import judge_answers
from .kept_results import ANSWERS, VERDICTS
from .marks import mark_run
from .questions import Dataset
from .report_tables import write_markdown_report
from .search_lookup import Environment, search_lookup

SEARCHES = ("passages", "lookup")


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be compared.

    Args:
        out: The folder for the runs and the reports.
        search: Tools over the dataset's passages that each agent gets: `passages`, `lookup` or none.
        judge: A model that judges the answers, too.
    """

    configurations: Sequence[Configuration]
    dataset: Dataset
    out: Path
    at_once: int = 1
    search: str = ""
    judge: Model | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of a study; `failed` says, for each configuration, why questions have no answer."""

    figures: Figures
    runs: Mapping[str, Sequence[Run]]
    failed: Mapping[str, Mapping[str, str]]


def select_questions(dataset: Dataset, tags: Sequence[str], first: int | None) -> Dataset:
    """Return the dataset with only the `first` questions that have one of the `tags`. Raises `DataError`."""
    there = dict.fromkeys(tag for one in dataset.questions for tag in one.tags)
    for tag in tags:
        if tag not in there:
            raise DataError(f"{dataset.name}: no question has the tag {tag!r}; {suggest_name(tag, there)}")
    kept = [one for one in dataset.questions if not tags or set(tags) & set(one.tags)]
    return replace(dataset, questions=tuple(kept[:first]))


async def conduct(study: Study, report: Callable[[EvalProgress], None] = lambda progress: None) -> Findings:
    """Ask what has no answer yet, one configuration after the other, and return the findings.

    Raises `ModelError` as `evaluate` does; what was answered is kept.
    """
    environment, more = _make_environment(study)
    study.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(study.out / ANSWERS, study.at_once, environment, more, report)
    asked = [await evaluate(one, study.dataset.questions, plan) for one in study.configurations]
    runs = {one.configuration.name: await _mark_runs(study, one) for one in asked}
    failed = {one.configuration.name: one.failed for one in asked if one.failed}
    counts = {name: len(its) for name, its in failed.items()}
    return Findings(compute_figures(study.dataset.name, study.dataset.questions, runs, counts), runs, failed)


def write_reports(study: Study, findings: Findings) -> tuple[Path, Path]:
    """Write `report.md`, `report.html` and `report.json` into the study's folder, and return the paths of the first
    two, which people read."""
    plain, page = study.out / "report.md", study.out / "report.html"
    about = list(_describe_study(study))
    with plain.open("w", encoding="utf-8", errors="replace") as file:
        file.write(write_markdown_report(findings.figures, about))
    with page.open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(write_html_report(findings.figures, about, study.dataset.questions, findings.runs))
    made = build_json_report(findings.figures, about, study.dataset.questions, findings.runs)
    (study.out / REPORT).write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8", errors="replace")
    return plain, page


async def _mark_runs(study: Study, asked: Evaluated) -> list[Run]:
    answered = [(one, asked.runs[one.id]) for one in study.dataset.questions if one.id in asked.runs]
    verdicts: Sequence[bool | None] = [None] * len(answered)
    if study.judge is not None:
        answers = [(one, run.answer) for one, run in answered]
        verdicts = await judge_answers(study.judge, answers, study.out / VERDICTS, study.at_once)
    prices = list(_list_prices(asked.configuration.agent))
    priced = None not in prices and any(one != FREE for one in prices)
    marked = zip(answered, verdicts, strict=True)
    return [Run(one, run, mark_run(one, run, verdict, priced=priced)) for (one, run), verdict in marked]


def _list_prices(agent: Agent) -> Iterator[Price | None]:
    """Yield the prices of an agent's model, and of those of the agents that it calls."""
    yield find_price(agent.model)
    for tool in agent.tools:
        if isinstance(tool.something, Agent):
            yield from _list_prices(tool.something)


def _make_environment(study: Study) -> tuple[Environment, str]:
    """Return what makes the tools that each run gets in addition, and a fingerprint of them."""
    if not study.search:
        return list, ""
    path = study.dataset.passages
    if path is None:
        raise UsageError(f"--search {study.search}: {study.dataset.name} has no passages.jsonl beside its questions")
    known = f"{study.search} {hash_file(path)}"
    if study.search == "lookup":
        return search_lookup(path), known
    tool = passages(path)
    return lambda: [tool], known


def _describe_study(study: Study) -> Iterator[str]:
    yield f"{len(study.dataset.questions)} questions of {study.dataset.name}"
    search = {"": [], "passages": ["Search"], "lookup": ["Search", "Lookup"]}[study.search]
    for one in study.configurations:
        agent = one.agent
        tools = ", ".join([*(tool.name for tool in agent.tools), *search])
        described = f"tools {tools}" if tools else "no tools"
        yield f"{one.name}: model {agent.model.name}, strategy {agent.strategy.name}, {described}"
    if study.judge is not None:
        yield f"judged by {study.judge.name}"
    yield f"{study.at_once} at once, {date.today().isoformat()}, Retinue {__version__}"
