"""Retinue's own format of datasets: questions as JSON lines, described in docs/evaluation.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..._internal.message_text import nearest
from ...core.json_schema import check_schema
from ...errors import DataError
from ..questions import Dataset, ExpectedCall, Number, Question
from .jsonl_lines import Line, are_texts, id_of, id_problems, is_number, is_text, read_lines, said

KEYS = (
    *("id", "question", "answers", "answer", "unanswerable", "evidence", "tags", "rivals", "tools"),
    "functions",
)
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_ANSWER = 'want a text or {"number": 12.5, "within": 0.1}'


def read_questions(path: Path) -> list[Question]:
    """Return the questions in a JSONL file. Raises `DataError` with all mistakes, each with file and line."""
    return read_lines(path, problems, question_of)


def open_folder(path: Path) -> Dataset:
    """Return the dataset in a JSONL file, or in a folder with `questions.jsonl` and, if they can be looked up,
    `passages.jsonl`. Raises `DataError`."""
    file = path / "questions.jsonl" if path.is_dir() else path
    passages = file.parent / "passages.jsonl"
    return Dataset(str(path), tuple(read_questions(file)), passages if passages.is_file() else None)


def question_of(line: Line) -> Question:
    """Return the question in a line without problems. Other keys than `KEYS` are the dataset's own."""
    answers = [line["answer"]] if "answer" in line else line.get("answers", [])
    return Question(
        id_of(line),
        line["question"].strip(),
        tuple(one if isinstance(one, str) else Number(float(one["number"]), _within(one)) for one in answers),
        line.get("unanswerable", False),
        tuple(line.get("evidence", ())),
        tuple(line.get("tags", ())),
        tuple(line.get("rivals", ())),
        tuple(ExpectedCall(one["name"], one.get("arguments", {})) for one in line.get("tools", ())),
        tuple(line.get("functions", ())),
    )


def problems(line: Line) -> Iterator[str]:
    """Yield what is wrong with a line."""
    yield from id_problems(line)
    yield from _answer_problems(line)
    if not isinstance(line.get("unanswerable", False), bool):
        yield f"unanswerable: {said(line, 'unanswerable')}; want true or false"
    for key in ("evidence", "tags", "rivals"):
        if not are_texts(line.get(key, [])):
            yield f"{key}: {said(line, key)}; want a list of texts"
    yield from _tool_problems(line)
    for key in line:
        if key not in KEYS and (near := nearest(key, KEYS, 0.75)) and near not in line:
            yield f"unknown key {key!r:.60}; did you mean {near!r}?"


def _answer_problems(line: Line) -> Iterator[str]:
    if "answer" in line and "answers" in line:
        yield "answer and answers: want one of them"
    elif "answer" in line:
        if not is_text(line["answer"]):
            yield f"answer: {said(line, 'answer')}; want a text"
    elif not isinstance(line.get("answers", []), list):
        yield f"answers: {said(line, 'answers')}; want a list of texts and numbers"
    else:
        for at, one in enumerate(line.get("answers", [])):
            if problem := _wrong(one):
                yield f"answers[{at}]: {one!r:.60}; {problem}"
    given = line.get("answers") or line.get("answer")
    if line.get("unanswerable") is True and given:
        yield "unanswerable: true, and it has answers; want one of them"
    if not given and not line.get("unanswerable") and not line.get("tools"):
        yield "answers: missing or empty; want at least one answer, or unanswerable: true, or tools"


def _wrong(answer: Any) -> str:
    """Return what would be right, if an accepted answer is wrong."""
    if not isinstance(answer, dict):
        return "" if is_text(answer) else _ANSWER
    fits = is_number(answer.get("number")) and answer.keys() <= {"number", "within"}
    if not fits or not is_number(answer.get("within", 0)) or answer.get("within", 0) < 0:
        return _ANSWER
    return ""


def _within(answer: Line) -> float:
    return float(answer.get("within", 0.0))


def _tool_problems(line: Line) -> Iterator[str]:
    tools, functions = line.get("tools", []), line.get("functions", [])
    if not isinstance(tools, list) or not all(map(_is_call, tools)):
        yield f'tools: {said(line, "tools")}; want a list of {{"name": …, "arguments": {{…}}}}'
    if not isinstance(functions, list) or not all(map(_is_function, functions)):
        yield f'functions: {said(line, "functions")}; want a list of {{"name": …, "parameters": {{a JSON Schema}}}}'
        return
    for at, one in enumerate(functions):
        if not _NAME.fullmatch(one["name"]):
            yield f"functions[{at}].name: {one['name']!r:.60}; want at most 64 letters, digits and underscores"
        try:
            check_schema(one.get("parameters", {}))
        except DataError as error:
            yield f"functions[{at}].parameters: {error}"


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and is_text(call.get("name")) and isinstance(call.get("arguments", {}), dict)


def _is_function(one: Any) -> bool:
    return isinstance(one, dict) and is_text(one.get("name")) and isinstance(one.get("parameters", {}), dict)
