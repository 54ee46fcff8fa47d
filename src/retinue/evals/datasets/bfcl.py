"""The Berkeley Function-Calling Leaderboard (Patil et al. 2025): *simple* (Python), *multiple* and *parallel*.

Its data is in the package `bfcl-eval` (Apache 2.0), whose many dependencies the data does not need: `pip download
--no-deps bfcl-eval` fetches the wheel, which is read as it is. A question is right if exactly the expected calls are
made.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..questions import Dataset, ExpectedCall, OneOf, Question
from .jsonl_lines import Line, id_problems, read_lines

CATEGORIES: Mapping[str, re.Pattern[str]] = {
    "simple": re.compile(r"BFCL_v\d+_simple(_python)?\.json"),
    "multiple": re.compile(r"BFCL_v\d+_multiple\.json"),
    "parallel": re.compile(r"BFCL_v\d+_parallel\.json"),
}
_IN_WHEEL = "bfcl_eval/data/"
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_KEPT = ("description", "enum", "default", "required")
Place = Path | zipfile.Path


def open_bfcl(path: Path) -> Dataset:
    """Return the questions in the wheel of `bfcl-eval`, or in a folder with its files and `possible_answer/`.

    The categories take turns, so that the first 300 are 100 of each. Raises `DataError`.
    """
    place = _place(path)
    found = {file.name: file for file in place.iterdir()}
    questions = []
    for category, named in CATEGORIES.items():
        if name := next((name for name in sorted(found) if named.fullmatch(name)), None):
            questions.append(_questions(found[name], place / "possible_answer" / name, category))
    if not questions:
        raise DataError(f"{path}: no file like BFCL_v4_simple_python.json (want the wheel of bfcl-eval, or its data)")
    return Dataset(str(path), tuple(one for one in chain.from_iterable(zip_longest(*questions)) if one is not None))


def _place(path: Path) -> Place:
    if path.is_dir():
        return path
    try:
        return zipfile.Path(path, _IN_WHEEL)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: {error} (want the wheel of bfcl-eval, or a folder with its data)") from error


def _questions(asked: Place, answers: Place, category: str) -> list[Question]:
    expected = dict(read_lines(answers, _answer_problems, _answer))
    questions = []
    for line in read_lines(asked, _problems, dict):
        if line["id"] not in expected:
            raise DataError(f"{answers}: no answer to {line['id']!r}")
        functions = tuple(map(_function, line["function"]))
        text = "\n".join(message["content"] for message in line["question"][0])
        questions.append(Question(line["id"], text, tags=(category,), calls=expected[line["id"]], functions=functions))
    return questions


def _problems(line: Line) -> Iterator[str]:
    yield from id_problems({**line, "question": "?"})
    turns = line.get("question")
    if not (isinstance(turns, list) and turns and isinstance(turns[0], list) and all(map(_is_message, turns[0]))):
        yield "question: want a list of turns, of which each is a list of messages"
    functions = line.get("function")
    if not isinstance(functions, list) or not all(isinstance(one, dict) and "name" in one for one in functions):
        yield "function: want a list of functions"


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), str)


def _answer_problems(line: Line) -> Iterator[str]:
    yield from id_problems({**line, "question": "?"})
    calls = line.get("ground_truth")
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        yield "ground_truth: want a list of {function: {argument: [accepted values]}}"


def _is_call(call: Any) -> bool:
    if not isinstance(call, dict) or len(call) != 1:
        return False
    (arguments,) = call.values()
    return isinstance(arguments, dict) and all(isinstance(one, list) for one in arguments.values())


def _answer(line: Line) -> tuple[str, tuple[ExpectedCall, ...]]:
    calls = (next(iter(call.items())) for call in line["ground_truth"])
    return line["id"], tuple(ExpectedCall(_name(name), _arguments(arguments)) for name, arguments in calls)


def _arguments(accepted: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which each has a list of accepted values; the empty text says that it may be left out."""
    return {
        name: OneOf(tuple(_value(one) for one in values if one != ""), "" in values)
        for name, values in accepted.items()
    }


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return _arguments({name: one if isinstance(one, list) else [one] for name, one in value.items()})
    return [_value(one) for one in value] if isinstance(value, list) else value


def _function(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _schema(function.get("parameters", {}))
    return {"name": _name(function["name"]), "description": function.get("description", ""), "parameters": parameters}


def _schema(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema for the leaderboard's, which names types as Python does."""
    schema = {key: written[key] for key in _KEPT if key in written}
    if (kind := written.get("type")) not in (None, "any"):
        schema["type"] = _TYPES.get(kind, kind)
    if isinstance(written.get("properties"), dict):
        schema["properties"] = {name: _schema(one) for name, one in written["properties"].items()}
    if isinstance(written.get("items"), dict):
        schema["items"] = _schema(written["items"])
    return schema


def _name(name: str) -> str:
    """Return a function's name as tools may be called; the leaderboard itself replaces dots for such models."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:64]
