"""Datasets as JSON lines in Retinue's own format, described in docs/evaluation.md.

All mistakes of a file are reported at once: file, line, what is wrong, what would be right.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..._internal.message_text import find_nearest
from ...core.schema.json_schema import check_schema
from ...errors import DataError
from ..questions import Dataset, ExpectedCall, Number, Question

T = TypeVar("T")
Line = Mapping[str, Any]
MAX_PROBLEMS = 100
KEYS = (
    *("id", "question", "answers", "answer", "unanswerable", "evidence", "tags", "rivals", "tools"),
    "functions",
)
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_ANSWER = 'want a text or {"number": 12.5, "within": 0.1}'


def read_lines(
    path: Path | zipfile.Path, problems: Callable[[Line], Iterator[str]], made: Callable[[Line], T]
) -> list[T]:
    """Return what is `made` of each line's object, in their order; blank lines are skipped.

    Raises `DataError` with all that `problems` finds, and with the lines that repeat an earlier `id`.
    """
    found: list[T] = []
    wrong: list[str] = []
    first: dict[str, int] = {}
    for number, line in read_objects(path):
        at = f"{path}:{number}: "
        new = [line] if isinstance(line, str) else list(problems(line))
        if not new and not isinstance(line, str):
            if (before := first.setdefault(str(line.get("id")), number)) != number:
                new = [f"the id {line['id']!r} is that of line {before}, too; want one of its own"]
            else:
                found.append(made(line))
        wrong += [at + one for one in new]
    if wrong:
        more = len(wrong) - MAX_PROBLEMS
        raise DataError("\n".join([*wrong[:MAX_PROBLEMS], *[f"{path}: {more} more problems"] * (more > 0)]))
    if not found:
        raise DataError(f"{path} contains no questions")
    return found


def read_objects(path: Path | zipfile.Path) -> Iterator[tuple[int, Line | str]]:
    """Yield the number and object of each line that is not blank; a text says what is wrong with it.

    Raises `DataError` if there is no such file, or it is not text.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text file in UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error} (want a file with one JSON object a line)") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _parse_object(line)


def _parse_object(line: str) -> Line | str:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return f"not JSON: {line.strip()[:60]!r}; want one JSON object a line"
    if not isinstance(values, dict):
        return f"want a JSON object, not {line.strip()[:60]!r}"
    return values


def is_text(value: Any) -> bool:
    """Return whether `value` is a text that says something and can be written to a file."""
    return isinstance(value, str) and bool(value.strip()) and value.encode("utf-8", "replace").decode() == value


def are_texts(value: Any) -> bool:
    """Return whether `value` is a list of texts."""
    return isinstance(value, list) and all(map(is_text, value))


def is_number(value: Any) -> bool:
    """Return whether `value` is a finite number, and no truth value."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def read_id(line: Line) -> str:
    """Return a line's id, which may be written as a whole number."""
    return str(line["id"])


def find_id_problems(line: Line, key: str = "question") -> Iterator[str]:
    """Yield what is wrong with a line's `id`, and with the text under `key`."""
    number = line.get("id")
    if not is_text(number) and (not isinstance(number, int) or isinstance(number, bool)):
        yield f"id: {describe_value(line, 'id')}; want a text"
    if not is_text(line.get(key)):
        yield f"{key}: {describe_value(line, key)}; want a text"


def describe_value(line: Line, key: str) -> str:
    """Return what a line says under `key`, for a message."""
    return "missing" if key not in line else "null" if line[key] is None else f"{line[key]!r:.60}"


def read_questions(path: Path) -> list[Question]:
    """Return the questions in a JSONL file. Raises `DataError` with all mistakes, each with file and line."""
    return read_lines(path, find_problems, read_question)


def open_folder(path: Path) -> Dataset:
    """Return the dataset in a JSONL file, or in a folder with `questions.jsonl` and, if they can be looked up,
    `passages.jsonl`. Raises `DataError`."""
    file = path / "questions.jsonl" if path.is_dir() else path
    passages = file.parent / "passages.jsonl"
    return Dataset(str(path), tuple(read_questions(file)), passages if passages.is_file() else None)


def read_question(line: Line) -> Question:
    """Return the question in a line without problems. Other keys than `KEYS` are the dataset's own."""
    answers = [line["answer"]] if "answer" in line else line.get("answers", [])
    return Question(
        read_id(line),
        line["question"].strip(),
        tuple(
            one if isinstance(one, str) else Number(float(one["number"]), float(one.get("within", 0.0)))
            for one in answers
        ),
        line.get("unanswerable", False),
        tuple(line.get("evidence", ())),
        tuple(line.get("tags", ())),
        tuple(line.get("rivals", ())),
        tuple(ExpectedCall(one["name"], one.get("arguments", {})) for one in line.get("tools", ())),
        tuple(line.get("functions", ())),
    )


def find_problems(line: Line) -> Iterator[str]:
    """Yield what is wrong with a line."""
    yield from find_id_problems(line)
    yield from _answer_problems(line)
    if not isinstance(line.get("unanswerable", False), bool):
        yield f"unanswerable: {describe_value(line, 'unanswerable')}; want true or false"
    for key in ("evidence", "tags", "rivals"):
        if not are_texts(line.get(key, [])):
            yield f"{key}: {describe_value(line, key)}; want a list of texts"
    yield from _find_tool_problems(line)
    for key in line:
        if key not in KEYS and (near := find_nearest(key, KEYS, 0.75)) and near not in line:
            yield f"unknown key {key!r:.60}; did you mean {near!r}?"


def _answer_problems(line: Line) -> Iterator[str]:
    if "answer" in line and "answers" in line:
        yield "answer and answers: want one of them"
    elif "answer" in line:
        if not is_text(line["answer"]):
            yield f"answer: {describe_value(line, 'answer')}; want a text"
    elif not isinstance(line.get("answers", []), list):
        yield f"answers: {describe_value(line, 'answers')}; want a list of texts and numbers"
    else:
        for at, one in enumerate(line.get("answers", [])):
            if problem := _answer_hint(one):
                yield f"answers[{at}]: {one!r:.60}; {problem}"
    given = line.get("answers") or line.get("answer")
    if line.get("unanswerable") is True and given:
        yield "unanswerable: true, and it has answers; want one of them"
    if not given and not line.get("unanswerable") and not line.get("tools"):
        yield "answers: missing or empty; want at least one answer, or unanswerable: true, or tools"


def _answer_hint(answer: Any) -> str:
    """Return what would be right, if an accepted answer is wrong."""
    if not isinstance(answer, dict):
        return "" if is_text(answer) else _ANSWER
    fits = is_number(answer.get("number")) and answer.keys() <= {"number", "within"}
    if not fits or not is_number(answer.get("within", 0)) or answer.get("within", 0) < 0:
        return _ANSWER
    return ""


def _find_tool_problems(line: Line) -> Iterator[str]:
    tools, functions = line.get("tools", []), line.get("functions", [])
    if not isinstance(tools, list) or not all(map(_is_call, tools)):
        yield f'tools: {describe_value(line, "tools")}; want a list of {{"name": …, "arguments": {{…}}}}'
    if not isinstance(functions, list) or not all(map(_is_function, functions)):
        said = describe_value(line, "functions")
        yield f'functions: {said}; want a list of {{"name": …, "parameters": {{a JSON Schema}}}}'
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
