"""Published datasets as their publishers write them: HotpotQA, FEVER, and the Berkeley Function-Calling Leaderboard.

The leaderboard's data is in the package `bfcl-eval` (Apache 2.0), whose many dependencies the data does not need: `pip
download --no-deps bfcl-eval` fetches the wheel, which is read as it is. A question is right if exactly the expected
calls are made.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..questions import Dataset, ExpectedCall, OneOf, Question
from .question_file import (
    Line,
    are_texts,
    describe_value,
    find_id_problems,
    find_problems,
    is_text,
    open_folder,
    read_id,
    read_lines,
    read_question,
)

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
_CLAIM_PROMPT = (
    "Is this claim supported or refuted by what can be found? "
    "Answer SUPPORTS, REFUTES or NOT ENOUGH INFO.\nClaim: {claim}"
)
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":", "_": " "}
CATEGORIES: Mapping[str, re.Pattern[str]] = {
    "simple": re.compile(r"BFCL_v\d+_simple(_python)?\.json"),
    "multiple": re.compile(r"BFCL_v\d+_multiple\.json"),
    "parallel": re.compile(r"BFCL_v\d+_parallel\.json"),
}
_IN_WHEEL = "bfcl_eval/data/"
_SCHEMA_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_SCHEMA_KEYS = ("description", "enum", "default", "required")
Place = Path | zipfile.Path


def open_hotpotqa(path: Path) -> Dataset:
    """Return the questions with their `type` and `level` as tags, and their evidence. Raises `DataError`."""
    whole = open_folder(path)
    file = path / "questions.jsonl" if path.is_dir() else path
    supporting = file.parent / "supporting.jsonl"
    titles = dict(read_lines(supporting, _find_title_problems, _read_titles)) if supporting.is_file() else {}
    asked = [
        replace(one, evidence=titles.get(one.id, one.evidence))
        for one in read_lines(file, find_problems, _read_tagged_question)
    ]
    return replace(whole, questions=tuple(asked))


def _read_tagged_question(line: Line) -> Question:
    tags = [line[key] for key in ("type", "level") if is_text(line.get(key))]
    question = read_question(line)
    return replace(question, tags=(*question.tags, *tags))


def _find_title_problems(line: Line) -> Iterator[str]:
    if not is_text(line.get("id")):
        yield f"id: {describe_value(line, 'id')}; want a text"
    if not are_texts(line.get("titles")):
        yield f"titles: {describe_value(line, 'titles')}; want a list of texts"


def _read_titles(line: Line) -> tuple[str, tuple[str, ...]]:
    return read_id(line), tuple(line["titles"])


def open_fever(path: Path) -> Dataset:
    """Return the claims in FEVER's `train.jsonl` or `shared_task_dev.jsonl` (its test files have no labels), or in a
    folder with `questions.jsonl` of that form. Raises `DataError`."""
    file = path / "questions.jsonl" if path.is_dir() else path
    passages = file.parent / "passages.jsonl"
    found = read_lines(file, _claim_problems, _claim_question)
    return Dataset(str(path), tuple(found), passages if passages.is_file() else None)


def _claim_problems(line: Line) -> Iterator[str]:
    yield from find_id_problems(line, "claim")
    if line.get("label") not in LABELS:
        yield f"label: {describe_value(line, 'label')}; want {', '.join(LABELS)}"
    if not isinstance(line.get("evidence", []), list):
        yield f"evidence: {describe_value(line, 'evidence')}; want a list of sets of sentences"


def _claim_question(line: Line) -> Question:
    label = line["label"]
    return Question(
        read_id(line),
        _CLAIM_PROMPT.format(claim=line["claim"].strip()),
        (label,),
        evidence=_find_evidence_titles(line.get("evidence", [])),
        tags=(label.lower(),),
        rivals=tuple(one for one in LABELS if one != label),
    )


def _find_evidence_titles(sets: list[Any]) -> tuple[str, ...]:
    """Return the pages of the smallest set of sentences that suffices; those of `NOT ENOUGH INFO` name none."""
    pages = [tuple(dict.fromkeys(filter(None, map(_find_page_title, one)))) for one in sets if isinstance(one, list)]
    return min(filter(None, pages), key=len, default=())


def _find_page_title(sentence: Any) -> str:
    """Return the title of the page in `[annotation, evidence, page, sentence]`."""
    page = sentence[2] if isinstance(sentence, list) and len(sentence) > 2 else None
    if not isinstance(page, str):
        return ""
    for code, sign in _ESCAPED.items():
        page = page.replace(code, sign)
    return page


def open_bfcl(path: Path) -> Dataset:
    """Return the questions in the wheel of `bfcl-eval`, or in a folder with its files and `possible_answer/`.

    The categories take turns, so that the first 300 are 100 of each. Raises `DataError`.
    """
    place = _open_place(path)
    found = {file.name: file for file in place.iterdir()}
    questions = []
    for category, named in CATEGORIES.items():
        if name := next((name for name in sorted(found) if named.fullmatch(name)), None):
            questions.append(_read_category(found[name], place / "possible_answer" / name, category))
    if not questions:
        raise DataError(f"{path}: no file like BFCL_v4_simple_python.json (want the wheel of bfcl-eval, or its data)")
    return Dataset(str(path), tuple(one for one in chain.from_iterable(zip_longest(*questions)) if one is not None))


def _open_place(path: Path) -> Place:
    if path.is_dir():
        return path
    try:
        return zipfile.Path(path, _IN_WHEEL)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: {error} (want the wheel of bfcl-eval, or a folder with its data)") from error


def _read_category(asked: Place, answers: Place, category: str) -> list[Question]:
    expected = dict(read_lines(answers, _answer_problems, _read_expected_calls))
    questions = []
    for line in read_lines(asked, _find_function_call_problems, dict):
        if line["id"] not in expected:
            raise DataError(f"{answers}: no answer to {line['id']!r}")
        functions = tuple(map(_read_function, line["function"]))
        text = "\n".join(message["content"] for message in line["question"][0])
        questions.append(Question(line["id"], text, tags=(category,), calls=expected[line["id"]], functions=functions))
    return questions


def _find_function_call_problems(line: Line) -> Iterator[str]:
    yield from find_id_problems({**line, "question": "?"})
    turns = line.get("question")
    if not (isinstance(turns, list) and turns and isinstance(turns[0], list) and all(map(_is_message, turns[0]))):
        yield "question: want a list of turns, of which each is a list of messages"
    functions = line.get("function")
    if not isinstance(functions, list) or not all(isinstance(one, dict) and "name" in one for one in functions):
        yield "function: want a list of functions"


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), str)


def _answer_problems(line: Line) -> Iterator[str]:
    yield from find_id_problems({**line, "question": "?"})
    calls = line.get("ground_truth")
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        yield "ground_truth: want a list of {function: {argument: [accepted values]}}"


def _is_call(call: Any) -> bool:
    if not isinstance(call, dict) or len(call) != 1:
        return False
    (arguments,) = call.values()
    return isinstance(arguments, dict) and all(isinstance(one, list) for one in arguments.values())


def _read_expected_calls(line: Line) -> tuple[str, tuple[ExpectedCall, ...]]:
    calls = (next(iter(call.items())) for call in line["ground_truth"])
    return line["id"], tuple(
        ExpectedCall(_make_tool_name(name), _read_accepted_arguments(arguments)) for name, arguments in calls
    )


def _read_accepted_arguments(accepted: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which each has a list of accepted values; the empty text says that it may be left out."""
    return {
        name: OneOf(tuple(_read_accepted_value(one) for one in values if one != ""), "" in values)
        for name, values in accepted.items()
    }


def _read_accepted_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _read_accepted_arguments({name: one if isinstance(one, list) else [one] for name, one in value.items()})
    return [_read_accepted_value(one) for one in value] if isinstance(value, list) else value


def _read_function(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _convert_schema(function.get("parameters", {}))
    return {
        "name": _make_tool_name(function["name"]),
        "description": function.get("description", ""),
        "parameters": parameters,
    }


def _convert_schema(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema for the leaderboard's, which names types as Python does."""
    schema = {key: written[key] for key in _SCHEMA_KEYS if key in written}
    if (kind := written.get("type")) not in (None, "any"):
        schema["type"] = _SCHEMA_TYPES.get(kind, kind)
    if isinstance(written.get("properties"), dict):
        schema["properties"] = {name: _convert_schema(one) for name, one in written["properties"].items()}
    if isinstance(written.get("items"), dict):
        schema["items"] = _convert_schema(written["items"])
    return schema


def _make_tool_name(name: str) -> str:
    """Return a function's name as tools may be called; the leaderboard itself replaces dots for such models."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:64]
