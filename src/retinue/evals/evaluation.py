"""Asks a configuration all questions of a dataset, and keeps each run at once, so that an evaluation can be resumed."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._internal.concurrency import gather_bounded
from ..agent import Agent
from ..core.events import Stopped
from ..core.run_result import RunResult
from ..core.tools.signature import build_schema_signature
from ..core.tools.tool import Tool
from ..core.values import StopReason
from ..errors import ModelError, ModelRefused, ModelUnavailable, UsageError
from .configurations import Configuration, fingerprint_agent
from .kept_results import keep_run, read_runs
from .marks import mark_run
from .questions import Question
from .search_lookup import Environment

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
    keys = {question.id: _hash_question(question) for question in questions}
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


async def _run_question(agent: Agent, question: Question) -> RunResult:
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


def _isolate_agent(agent: Agent) -> Agent:
    """Return the agent without memory and without a person, since each question is put for itself."""
    made = agent.with_memory(())
    made.trace, made.human = False, None
    made.tools = [
        replace(tool, something=_isolate_agent(tool.something)) if isinstance(tool.something, Agent) else tool
        for tool in agent.tools
    ]
    return made


def _add_tools(agent: Agent, question: Question, environment: Environment) -> Agent:
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


def _hash_question(question: Question) -> str:
    """Return a fingerprint of the question as it is put; what counts as right may change without asking again."""
    put = [question.id, question.question, question.functions]
    return hashlib.sha256(json.dumps(put, default=str).encode()).hexdigest()[:16]
