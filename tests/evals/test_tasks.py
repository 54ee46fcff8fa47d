"""The ten two-step tasks: their data, the scoring, and the run over strategies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bench import tasks as module
from bench.tasks import BUDGET, Done, approving, evaluate, report
from click.testing import CliRunner

from retinue import Agent, PromptModel, StopReason
from retinue.evals.datasets import read_questions
from retinue.evals.marks import is_right
from retinue.evals.questions import Number, Question
from retinue.tools import Passages, calculator, passages

DATA = Path("data/tasks")
TASKS = read_questions(DATA / "tasks.jsonl")
SCRIPT = (
    {"when": "^How old is Mara", "call": {"tool": "Search", "input": "Mara Lindqvist"}},
    {"when": "47 years", "call": {"tool": "Calculator", "input": "47 * 3"}},
    {"when": "141", "finish": "It is 141."},
    {"when": "", "finish": "No idea"},
)


def agent(strategy: str = "react", script: Sequence[Any] = SCRIPT) -> Agent:
    tools = [passages(DATA / "passages.jsonl"), calculator]
    return Agent(PromptModel(script=script), tools, strategy=strategy, budget=BUDGET, human=approving)


def test_there_are_ten_tasks_and_no_question_gives_its_answer_away() -> None:
    assert len({task.id for task in TASKS}) == len(TASKS) == 10
    for task in TASKS:
        assert is_right(task.question, task) is False
        assert task.answers
    texts = (DATA / "passages.jsonl").read_text(encoding="utf-8")
    numbers = {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", texts)}
    assert not numbers & {wanted.number for task in TASKS for wanted in task.answers if isinstance(wanted, Number)}
    assert len(Passages.load(DATA / "passages.jsonl")) == 14


@pytest.mark.parametrize(
    ("answer", "solved"),
    [
        ("7.2111", True),
        ("It is about 7.21.", True),
        ("7.25", False),
        ("7", False),
        ("", False),
        ("47 and 1,234.5e0 and 7.2111", True),
    ],
)
def test_a_number_may_be_off_by_so_much(answer: str, solved: bool) -> None:
    assert is_right(answer, Question("x", "?", (Number(7.2111, 0.012),))) is solved


@pytest.mark.parametrize(
    ("answer", "solved"),
    [("Lake Sennet", True), ("sennet.", True), ("The Sennetlake", False), ("Sennet, not Orlo", False), ("Orlo", False)],
)
def test_a_text_counts_as_words_and_without_its_rivals(answer: str, solved: bool) -> None:
    assert is_right(answer, Question("x", "?", ("Sennet",), rivals=("Orlo",))) is solved


def test_tasks_are_done_counted_kept_and_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "tasks.jsonl"
    first, second = asyncio.run(evaluate(agent(), TASKS[:2], kept))
    assert (first.solved, first.replies, first.stop_reason, first.unreadable) == (True, 3, "ANSWER", 0)
    assert (second.solved, second.answer) == (False, "No idea")
    assert "react  1/2 solved" in capsys.readouterr().out
    refusing = agent(script=[{"when": "^never$", "finish": "x"}])
    assert asyncio.run(evaluate(refusing, TASKS[:2], kept)) == [first, second]
    assert [Done(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()] == [first, second]
    planned = asyncio.run(evaluate(agent("humanInLoopPlanExec"), TASKS[:1], kept))
    assert (planned[0].solved, planned[0].strategy) == (True, "humanInLoopPlanExec")


def test_unreadable_replies_are_counted(tmp_path: Path) -> None:
    script = ["I am thinking.", " I know\nFinal Answer: 141"]
    (record,) = asyncio.run(evaluate(agent(script=script), TASKS[:1], tmp_path / "tasks.jsonl"))
    assert (record.solved, record.unreadable, record.replies) == (True, 1, 2)


def test_the_report_has_a_line_for_each_strategy() -> None:
    one = Done("a", "react", "s", "?", "x", True, "ANSWER", 3, 0, 10.0, 1_000, 50)
    two = Done("b", "react", "s", "?", "", False, str(StopReason.STAGNATED), 6, 2, 20.0, 3_000, 150)
    section = report({"react": [one, two], "planexec": [one]}, "some-model")
    assert section.startswith("Model some-model, ")
    assert "\n| `react` | 1 of 2 | 4.5 | 2 | 15.0 | 2,000 in, 100 out | ANSWER 1, STAGNATED 1 |\n" in section
    assert "\n| `planexec` | 1 of 1 |" in section


def test_the_command_writes_the_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PromptModel", lambda model, base_url: PromptModel(script=SCRIPT))
    out = tmp_path / "bench"
    done = CliRunner().invoke(module.main, ["--strategies", "react,planexec", "--out", str(out), "--data", str(DATA)])
    assert done.exit_code == 0, done.output
    text = (out / "RESULTS.md").read_text(encoding="utf-8")
    assert "<!-- tasks -->\nModel scripted, " in text
    assert "| `react` | 1 of 10 |" in text
    assert "| `planexec` | 1 of 10 |" in text


def test_a_strategy_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(module.main, ["--strategies", "reakt", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "no strategy 'reakt'; did you mean 'react'?" in done.output
