"""Datasets of questions as JSON lines: Retinue's own format (docs/evaluation.md), and published ones.

All mistakes of a file are reported at once: file, line, what is wrong, what would be right.

Of HotpotQA, FEVER and the Berkeley Function-Calling Leaderboard, files are read as their publishers write them. The
leaderboard's data is in the package `bfcl-eval` (Apache 2.0), whose many dependencies the data does not need: `pip
download --no-deps bfcl-eval` fetches the wheel, which is read as it is. A question is right if exactly the expected
calls are made.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jsonschema import Draft202012Validator

from .._internal.message_text import find_nearest
from ..core.schema.json_schema import check_schema
from ..errors import DataError
from .questions import Dataset, ExpectedCall, Number, OneOf, Question

T = TypeVar("T")
Line = Mapping[str, Any]
Place = Path | zipfile.Path
MAX_PROBLEMS = 100
KEYS = tuple("id question answers answer unanswerable evidence tags rivals tools functions".split())
_ANSWER = 'want a text or {"number": 12.5, "within": 0.1}'
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")


def open_dataset(said: str) -> Dataset:
    """Return the dataset that `PATH` (Retinue's own format) or `FORMAT:PATH` names. Raises `DataError`."""
    name, colon, rest = said.partition(":")
    if colon and name in FORMATS:
        return FORMATS[name](Path(rest).expanduser())
    return _open_lines(Path(said).expanduser(), find_problems, read_question)


def read_questions(path: Path) -> list[Question]:
    """Return the questions in a JSONL file. Raises `DataError` with all mistakes, each with file and line."""
    return read_lines(path, find_problems, read_question)


def _open_lines(path: Path, problems: Callable[[Line], Iterator[str]], make: Callable[[Line], Question]) -> Dataset:
    """Return the dataset in a JSONL file, or in a folder with `questions.jsonl` and, if they can be looked up,
    `passages.jsonl`."""
    file = _find_questions(path)
    passages = file.parent / "passages.jsonl"
    return Dataset(str(path), tuple(read_lines(file, problems, make)), passages if passages.is_file() else None)


def _find_questions(path: Path) -> Path:
    return path / "questions.jsonl" if path.is_dir() else path


def read_lines(path: Place, problems: Callable[[Line], Iterator[str]], make: Callable[[Line], T]) -> list[T]:
    """Return what `make` returns for each line's object, in their order; blank lines are skipped.

    Raises `DataError` with all that `problems` finds, and with the lines that repeat an earlier `id`; also if there is
    no such file, it is not text, or it is empty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text file in UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error} (want a file with one JSON object a line)") from error
    found: list[T] = []
    wrong: list[str] = []
    first: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        values, new = _parse_line(line, problems)
        if not new and (before := first.setdefault(str(values.get("id")), number)) != number:
            new = [f"the id {values['id']!r} is that of line {before}, too; want one of its own"]
        if not new:
            found.append(make(values))
        wrong += [f"{path}:{number}: {one}" for one in new]
    if wrong:
        more = len(wrong) - MAX_PROBLEMS
        raise DataError("\n".join([*wrong[:MAX_PROBLEMS], *[f"{path}: {more} more problems"] * (more > 0)]))
    if not found:
        raise DataError(f"{path} contains no questions")
    return found


def _parse_line(line: str, problems: Callable[[Line], Iterator[str]]) -> tuple[Any, list[str]]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None, [f"not JSON: {line.strip()[:60]!r}; want one JSON object a line"]
    if not isinstance(values, dict):
        return None, [f"want a JSON object, not {line.strip()[:60]!r}"]
    return values, list(problems(values))


# ── Retinue's own format ─────────────────────────────────────────────────────────────────────────


def read_question(line: Line) -> Question:
    """Return the question in a line without problems. Other keys than `KEYS` are the dataset's own."""
    answers = [line["answer"]] if "answer" in line else line.get("answers", [])
    return Question(
        str(line["id"]),  # which may be written as a whole number
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


class Key(NamedTuple):
    """What a line has under a key: `holds` says whether a value is right, `want` what is. A key may be optional."""

    holds: Callable[[Any], bool]
    want: str
    optional: bool = False


def check_keys(line: Line, keys: Mapping[str, Key]) -> Iterator[str]:
    """Yield what is wrong with a line."""
    for name, key in keys.items():
        if (name in line or not key.optional) and not key.holds(line.get(name)):
            yield f"{name}: {_describe_value(line, name)}; want {key.want}"


def _is_text(value: Any) -> bool:
    """Return whether `value` is a text that says something and can be written to a file."""
    return isinstance(value, str) and bool(value.strip()) and value.encode("utf-8", "replace").decode() == value


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _describe_value(line: Line, key: str) -> str:
    return "missing" if key not in line else "null" if line[key] is None else f"{line[key]!r:.60}"


def _fits(**schema: Any) -> Callable[[Any], bool]:
    """Return what says whether a value fits a JSON Schema."""
    return Draft202012Validator(schema).is_valid


def _list_of(name: str) -> dict[str, Any]:
    """Return the schema of a list of objects, each with a `name` and perhaps an object under another one."""
    properties = {"name": {"type": "string", "pattern": r"\S"}, name: {"type": "object"}}
    return {"type": "array", "items": {"type": "object", "required": ["name"], "properties": properties}}


ID = Key(lambda value: type(value) is int or _is_text(value), "a text")
TEXT = Key(_is_text, "a text")
TEXTS = Key(lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of texts", optional=True)
CHECKED = {
    "id": ID,
    "question": TEXT,
    "unanswerable": Key(_fits(type="boolean"), "true or false", optional=True),
    **dict.fromkeys(("evidence", "tags", "rivals"), TEXTS),
    "tools": Key(_fits(**_list_of("arguments")), 'a list of {"name": …, "arguments": {…}}', optional=True),
    "functions": Key(
        _fits(**_list_of("parameters")), 'a list of {"name": …, "parameters": {a JSON Schema}}', optional=True
    ),
}


def find_problems(line: Line) -> Iterator[str]:
    """Yield what is wrong with a line of Retinue's own format."""
    yield from check_keys(line, CHECKED)
    yield from _find_answer_problems(line)
    functions = line.get("functions", [])
    for at, one in enumerate(functions if CHECKED["functions"].holds(functions) else ()):
        if not _NAME.fullmatch(one["name"]):
            yield f"functions[{at}].name: {one['name']!r:.60}; want at most 64 letters, digits and underscores"
        try:
            check_schema(one.get("parameters", {}))
        except DataError as error:
            yield f"functions[{at}].parameters: {error}"
    for key in line:
        if key not in KEYS and (near := find_nearest(key, KEYS, 0.75)) and near not in line:
            yield f"unknown key {key!r:.60}; did you mean {near!r}?"


def _find_answer_problems(line: Line) -> Iterator[str]:
    answers = line.get("answers", [])
    if "answer" in line and "answers" in line:
        yield "answer and answers: want one of them"
    elif "answer" in line:
        yield from check_keys(line, {"answer": TEXT})
    elif not isinstance(answers, list):
        yield f"answers: {_describe_value(line, 'answers')}; want a list of texts and numbers"
    else:
        wrong = [(at, one) for at, one in enumerate(answers) if not (_is_text(one) or _is_number_answer(one))]
        yield from (f"answers[{at}]: {one!r:.60}; {_ANSWER}" for at, one in wrong)
    given = line.get("answers") or line.get("answer")
    if line.get("unanswerable") is True and given:
        yield "unanswerable: true, and it has answers; want one of them"
    if not given and not line.get("unanswerable") and not line.get("tools"):
        yield "answers: missing or empty; want at least one answer, or unanswerable: true, or tools"


def _is_number_answer(answer: Any) -> bool:
    if not isinstance(answer, dict) or not answer.keys() <= {"number", "within"}:
        return False
    within = answer.get("within", 0)
    return _is_number(answer.get("number")) and _is_number(within) and within >= 0


# ── HotpotQA and FEVER ───────────────────────────────────────────────────────────────────────────


def _open_hotpotqa(path: Path) -> Dataset:
    """Return the questions with their `type` and `level` as tags, and the titles in `supporting.jsonl` as evidence."""
    supporting = _find_questions(path).parent / "supporting.jsonl"
    keys = {"id": TEXT, "titles": TEXTS._replace(optional=False)}
    read_titles = lambda line: (line["id"], tuple(line["titles"]))  # noqa: E731
    titles = dict(read_lines(supporting, partial(check_keys, keys=keys), read_titles)) if supporting.is_file() else {}

    def read(line: Line) -> Question:
        tags = [line[key] for key in ("type", "level") if _is_text(line.get(key))]
        question = read_question(line)
        evidence = titles.get(question.id, question.evidence)
        return replace(question, tags=(*question.tags, *tags), evidence=evidence)

    return _open_lines(path, find_problems, read)


LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
_CLAIM_PROMPT = (
    "Is this claim supported or refuted by what can be found? "
    "Answer SUPPORTS, REFUTES or NOT ENOUGH INFO.\nClaim: {claim}"
)
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":", "_": " "}


def _open_fever(path: Path) -> Dataset:
    """Return the claims in FEVER's `train.jsonl` or `shared_task_dev.jsonl` (its test files have no labels), or in a
    folder with `questions.jsonl` of that form."""
    label = Key(_fits(enum=list(LABELS)), ", ".join(LABELS))
    evidence = Key(_fits(type="array"), "a list of sets of sentences", optional=True)
    keys = {"id": ID, "claim": TEXT, "label": label, "evidence": evidence}
    return _open_lines(path, partial(check_keys, keys=keys), _read_claim)


def _read_claim(line: Line) -> Question:
    """Return the claim as a question; its evidence are the pages of the smallest set of sentences that suffices."""
    label, prompt = line["label"], _CLAIM_PROMPT.format(claim=line["claim"].strip())
    sets = [_list_pages(one) for one in line.get("evidence", []) if isinstance(one, list)]
    evidence = min(filter(None, sets), key=len, default=())  # that of `NOT ENOUGH INFO` names none
    rivals = tuple(one for one in LABELS if one != label)
    return Question(str(line["id"]), prompt, (label,), evidence=evidence, tags=(label.lower(),), rivals=rivals)


def _list_pages(sentences: list[Any]) -> tuple[str, ...]:
    """Return the titles of the pages in a list of `[annotation, evidence, page, sentence]`."""
    pages = [one[2] for one in sentences if isinstance(one, list) and len(one) > 2 and isinstance(one[2], str)]
    titles = [re.sub("|".join(_ESCAPED), lambda code: _ESCAPED[code[0]], page) for page in pages if page]
    return tuple(dict.fromkeys(titles))


# ── the Berkeley Function-Calling Leaderboard ────────────────────────────────────────────────────

CATEGORIES: Mapping[str, re.Pattern[str]] = {
    "simple": re.compile(r"BFCL_v\d+_simple(_python)?\.json"),
    "multiple": re.compile(r"BFCL_v\d+_multiple\.json"),
    "parallel": re.compile(r"BFCL_v\d+_parallel\.json"),
}
_IN_WHEEL = "bfcl_eval/data/"
_MESSAGE = {"type": "object", "required": ["content"], "properties": {"content": {"type": "string"}}}
_ASKED = {
    "id": ID,
    "question": Key(
        _fits(type="array", minItems=1, prefixItems=[{"type": "array", "items": _MESSAGE}]),
        "a list of turns, of which each is a list of messages",
    ),
    "function": Key(_fits(type="array", items={"type": "object", "required": ["name"]}), "a list of functions"),
}
_ARGUMENTS = {"type": "object", "additionalProperties": {"type": "array"}}
_CALL = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": _ARGUMENTS}
_TRUTH = {
    "id": ID,
    "ground_truth": Key(_fits(type="array", items=_CALL), "a list of {function: {argument: [accepted values]}}"),
}
_SCHEMA_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def open_bfcl(path: Path) -> Dataset:
    """Return the questions in the wheel of `bfcl-eval`, or in a folder with its files and `possible_answer/`.

    The categories take turns, so that the first 300 are 100 of each. Raises `DataError`.
    """
    try:
        place: Place = path if path.is_dir() else zipfile.Path(path, _IN_WHEEL)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: {error} (want the wheel of bfcl-eval, or a folder with its data)") from error
    found = {file.name: file for file in place.iterdir()}
    questions = []
    for category, named in CATEGORIES.items():
        if name := next((name for name in sorted(found) if named.fullmatch(name)), None):
            questions.append(_read_category(found[name], place / "possible_answer" / name, category))
    if not questions:
        raise DataError(f"{path}: no file like BFCL_v4_simple_python.json (want the wheel of bfcl-eval, or its data)")
    return Dataset(str(path), tuple(one for one in chain.from_iterable(zip_longest(*questions)) if one is not None))


def _read_category(asked: Place, answers: Place, category: str) -> list[Question]:
    expected = dict(read_lines(answers, partial(check_keys, keys=_TRUTH), _read_calls))
    questions = []
    for line in read_lines(asked, partial(check_keys, keys=_ASKED), dict):
        if line["id"] not in expected:
            raise DataError(f"{answers}: no answer to {line['id']!r}")
        functions = tuple(map(_read_function, line["function"]))
        text = "\n".join(message["content"] for message in line["question"][0])
        questions.append(Question(line["id"], text, tags=(category,), calls=expected[line["id"]], functions=functions))
    return questions


def _read_calls(line: Line) -> tuple[str, tuple[ExpectedCall, ...]]:
    calls = [next(iter(call.items())) for call in line["ground_truth"]]
    return line["id"], tuple(ExpectedCall(_make_tool_name(name), _read_arguments(given)) for name, given in calls)


def _read_arguments(accepted: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which each has a list of accepted values; the empty text says that it may be left out."""
    return {
        name: OneOf(tuple(_read_accepted_value(one) for one in values if one != ""), "" in values)
        for name, values in accepted.items()
    }


def _read_accepted_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _read_arguments({name: one if isinstance(one, list) else [one] for name, one in value.items()})
    return [_read_accepted_value(one) for one in value] if isinstance(value, list) else value


def _read_function(function: Mapping[str, Any]) -> dict[str, Any]:
    name, parameters = _make_tool_name(function["name"]), _convert_schema(function.get("parameters", {}))
    return {"name": name, "description": function.get("description", ""), "parameters": parameters}


def _convert_schema(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema for the leaderboard's, which names types as Python does."""
    schema = {key: written[key] for key in ("description", "enum", "default", "required") if key in written}
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


FORMATS: Mapping[str, Callable[[Path], Dataset]] = {
    "bfcl": open_bfcl,
    "fever": _open_fever,
    "hotpotqa": _open_hotpotqa,
}
