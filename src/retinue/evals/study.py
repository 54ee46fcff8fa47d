"""A study: several configurations asked the same questions, judged, compared and reported.

Each run is kept at once, so that an evaluation can be resumed.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from .. import __version__
from .._internal.concurrency import gather_bounded
from .._internal.message_text import suggest_name
from ..agent import Agent
from ..core.events import Stopped
from ..core.prices import FREE, Price, find_price
from ..core.protocols import Model
from ..core.run_result import RunResult
from ..core.tools.signature import build_schema_signature
from ..core.tools.tool import Tool
from ..core.values import StopReason
from ..errors import DataError, ModelError, ModelRefused, ModelUnavailable, UsageError
from ..tools import passages
from .comparison import Figures, Run, compute_figures
from .configurations import Configuration, fingerprint_agent, hash_file
from .json_report import REPORT, build_json_report
from .judge import judge_answers
from .kept_results import ANSWERS, VERDICTS, keep_run, read_runs
from .marks import mark_run
from .questions import Dataset, Question
from .report import write_html_report, write_markdown_report
from .search_lookup import Environment, search_lookup

SEARCHES = ("passages", "lookup")
_UNREACHED = ("model_unavailable", "model_unreachable", "rate_limit_exceeded")
_MISTAKES = ("model_refused", "invalid_request")
_IN_A_ROW = 10  # failures after which the model is taken to be gone


@dataclass(frozen=True, slots=True)
class EvalProgress:
    """How far an evaluation is: `right` of the `done` so far are right."""

    configuration: str
    done: int
    of: int
    right: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How a configuration is asked.

    Args:
        kept: The file in which runs are kept.
        environment: Makes tools that each run gets in addition.
        more: What else the answers depend on, such as the content of the passages.
        report: Called before the first question, and when an answer is there.
    """

    kept: Path
    at_once: int = 1
    environment: Environment = list
    more: str = ""
    report: Callable[[EvalProgress], None] = lambda progress: None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The runs of a configuration by question, and why some questions have none: the model could not be reached."""

    configuration: Configuration
    runs: Mapping[str, RunResult]
    failed: Mapping[str, str]


async def evaluate(configuration: Configuration, questions: Sequence[Question], plan: Plan) -> Evaluated:
    """Ask the questions that have no run of the same setup in the file, at most `plan.at_once` at a time.

    A run that fails because the model cannot be reached is not kept; the others go on. Raises `ModelError` if the model
    fails before it has answered anything, or ten times in a row.
    """
    setup = await fingerprint_agent(configuration.agent, plan.more)
    agent = _isolate_agent(configuration.agent)
    keys = {}
    for one in questions:  # what counts as right may change without asking again
        put = json.dumps([one.id, one.question, one.functions], default=str)
        keys[one.id] = hashlib.sha256(put.encode()).hexdigest()[:16]
    kept = read_runs(plan.kept, setup)
    runs = {question.id: kept[keys[question.id]] for question in questions if keys[question.id] in kept}
    right = sum(mark_run(question, runs[question.id]).right for question in questions if question.id in runs)
    failed: dict[str, str] = {}
    in_a_row = 0

    async def ask(question: Question) -> None:
        nonlocal right, in_a_row
        try:
            run = await _run_question(_add_tools(agent, question, plan.environment), question)
        except ModelError as error:
            failed[question.id] = str(error)
            in_a_row += 1
            if not runs or in_a_row >= _IN_A_ROW:
                raise
            return
        run = replace(run, seconds=round(run.seconds, 3))  # as it is kept
        keep_run(plan.kept, configuration.name, setup, keys[question.id], question, run)
        runs[question.id], in_a_row = run, 0
        right += mark_run(question, run).right
        plan.report(EvalProgress(configuration.name, len(runs), len(questions), right))

    if missing := [one for one in questions if one.id not in runs]:
        plan.report(EvalProgress(configuration.name, len(runs), len(questions), right))
        await gather_bounded(ask, missing, plan.at_once)
    in_order = {one.id: runs[one.id] for one in questions if one.id in runs}
    return Evaluated(configuration, in_order, {one.id: failed[one.id] for one in questions if one.id in failed})


async def _run_question(agent: Agent[Any, Any], question: Question) -> RunResult[Any]:
    """Return the outcome of a run, which may be an error. Raises `ModelError` if that is not the agent's own."""
    run = agent.start(question.question)
    try:
        done = await run.finish()
    except ModelError:
        if not run.log:
            raise
        done = run.result
    last = done.events[-1] if done.events else None
    if isinstance(last, Stopped) and last.reason is StopReason.ERROR:
        if last.code in _UNREACHED:
            raise ModelUnavailable(last.detail)
        if last.code in _MISTAKES and not done.usage.requests:
            raise ModelRefused(last.detail)
    return done


def _isolate_agent(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """Return the agent without memory and without a person, since each question is put for itself."""
    made = agent.with_memory(())
    made.trace, made.human = False, None
    made.tools = [
        replace(tool, something=_isolate_agent(tool.something)) if isinstance(tool.something, Agent) else tool
        for tool in agent.tools
    ]
    return made


def _add_tools(agent: Agent[Any, Any], question: Question, environment: Environment) -> Agent[Any, Any]:
    """Return the agent with the tools that a run gets in addition. Raises `UsageError` for a team that walks a plan."""
    more = [*environment(), *map(_make_mock_tool, question.functions)]
    if more and type(agent) is not Agent:
        raise UsageError(f"{agent.name} is a {type(agent).__name__} and takes no tools of a dataset; name an agent")
    made = copy.copy(agent)
    made.tools = list(agent.tools)
    for tool in more:
        made.add_tool(tool)
    return made


def _make_mock_tool(function: Mapping[str, Any]) -> Tool:
    """Return a tool that does nothing but be called."""

    def accept(**arguments: Any) -> str:  # differs from call to call, so that several calls are no run in circles
        return f"Accepted: {json.dumps(arguments, ensure_ascii=False, default=str)}"

    takes = build_schema_signature({"type": "object", "properties": {}} | dict(function.get("parameters", {})))
    description = str(function.get("description") or function["name"])
    return Tool(function["name"], accept, description, effects="read", takes=takes)


# ── studies ──────────────────────────────────────────────────────────────────────────────────────


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
        answers = [(one, run.text) for one, run in answered]
        verdicts = await judge_answers(study.judge, answers, study.out / VERDICTS, study.at_once)
    prices = list(_list_prices(asked.configuration.agent))
    priced = None not in prices and any(one != FREE for one in prices)
    marked = zip(answered, verdicts, strict=True)
    return [Run(one, run, mark_run(one, run, verdict, priced=priced)) for (one, run), verdict in marked]


def _list_prices(agent: Agent[Any, Any]) -> Iterator[Price | None]:
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
