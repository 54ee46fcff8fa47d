"""The evaluation of a team: its questions, the same team by a script, and its report."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from bench import teams as module
from bench.tasks import evaluate
from bench.teams import SPLITS, team
from click.testing import CliRunner

from retinue import DataError, PromptModel
from retinue.evals.datasets import read_questions
from retinue.evals.marks import count_unusable_replies, is_right
from retinue.evals.questions import Number, Question

DATA = Path("data/teams")
QUESTIONS = {split: read_questions(DATA / name) for split, name in SPLITS.items()}
LOOKED_UP = {
    "loaves": ("loaves", "640 * 7"),
    "railway": ("Harrow Line", "96 / 5"),
    "mountains": ("Mount", "2940 - 2385"),
    "mine": ("Mine", "1961 - 1874"),
    "seats": ("Wren", "24 * 32"),
    "apples": ("Orchard", "1150 * 40"),
    "percent": ("Port Ellery is a harbour", "15% of 18400"),
    "clocks": ("Solberg", "36 * 12"),
    "runners": ("Marathon", "4800 * 45"),
    "pupils": ("Linden", "504 / 18"),
    "together": ("Caldmoor is a town", "18400 + 7250"),
    "passengers": ("Alba", "420 * 6"),
    "feet": ("Lighthouse", "58 * 3.281"),
    "water": ("Dunmere", "9600000 / 64000"),
    "before": ("Mine", "1874 - 1812"),
}


def script(question: Question) -> list[dict[str, Any]]:
    """What the models of the supervisor and of both workers say to this question, one after the other."""
    fact, sum_ = LOOKED_UP[question.id]
    return [
        {"when": re.escape(question.question), "times": 1, "call": {"tool": "archive", "input": f"{fact}?"}},
        {"when": f"^{re.escape(fact)}\\?$", "times": 1, "call": {"tool": "Search", "input": question.question}},
        {"when": re.escape(fact), "times": 1, "finish": "This is what I found."},
        {"when": "what I found", "times": 1, "call": {"tool": "maths", "input": f"What is {sum_}?"}},
        {"when": "^What is", "times": 1, "call": {"tool": "Calculator", "input": sum_}},
        {"when": r"^[\d.]+$", "times": 1, "finish": str(question.answers[0].number)},  # type: ignore[union-attr]
        {"when": r"^[\d.]+$", "times": 1, "finish": f"It is {question.answers[0].number}."},  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize("question", [one for split in QUESTIONS.values() for one in split], ids=lambda one: one.id)
def test_the_scripted_team_answers_all(question: Question) -> None:
    result = team(PromptModel(script=script(question)), DATA / "passages.jsonl").run(question.question)
    assert is_right(result.answer, question), result.transcript
    assert [action.tool for step in result.steps for action in step.actions] == ["archive", "maths"]
    seen = [step.observations[0].text for step in result.steps]
    assert is_right(seen[1], question)
    assert (count_unusable_replies(result), result.usage.runs) == (0, 2)


def test_no_question_and_no_passage_gives_an_answer_away() -> None:
    assert {split: len(questions) for split, questions in QUESTIONS.items()} == {"questions": 10, "test": 5}
    texts = (DATA / "passages.jsonl").read_text(encoding="utf-8")
    numbers = {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", texts)}
    for question in (one for split in QUESTIONS.values() for one in split):
        assert is_right(question.question, question) is False
        assert not numbers & {wanted.number for wanted in question.answers if isinstance(wanted, Number)}


def test_unreadable_replies_of_workers_are_counted(tmp_path: Path) -> None:
    question = QUESTIONS["questions"][0]
    rules = script(question)
    rules.insert(1, {"when": rf"^{LOOKED_UP[question.id][0]}\?$", "times": 1, "raw": "I am thinking."})
    (record,) = asyncio.run(
        evaluate(team(PromptModel(script=rules), DATA / "passages.jsonl"), [question], tmp_path / "teams.jsonl")
    )
    assert (record.unreadable, record.solved) == (
        1,
        False,
    )  # the script has no rule for what it is told then


def test_the_command_writes_a_line_for_each_set_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [*script(QUESTIONS["questions"][0]), {"when": "", "finish": "No idea"}]
    monkeypatch.setattr(module, "PromptModel", lambda model, base_url: PromptModel(script=rules))
    done = CliRunner().invoke(module.main, ["--out", str(tmp_path / "bench"), "--data", str(DATA)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    assert "<!-- teams -->\nModel scripted, " in text
    assert "| questions | 1 of 10 |" in text
    assert "| test | 0 of 5 |" in text
    assert len((tmp_path / "bench" / "teams.jsonl").read_text(encoding="utf-8").splitlines()) == 15


def test_a_file_without_questions_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PromptModel", lambda model, base_url: PromptModel(script=["No idea"]))
    (tmp_path / "passages.jsonl").write_text(json.dumps({"text": "x"}))
    (tmp_path / "questions.jsonl").write_text("")
    given = ["--out", str(tmp_path), "--data", str(tmp_path), "--split", "questions"]
    done = CliRunner().invoke(module.main, given)
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{tmp_path / 'questions.jsonl'} contains no questions"
