"""Reads datasets in JSONL, and reports all their mistakes at once: file, line, what is wrong, what would be right."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ...errors import DataError

T = TypeVar("T")
Line = Mapping[str, Any]
MAX_PROBLEMS = 100


def read_lines(
    path: Path | zipfile.Path, problems: Callable[[Line], Iterator[str]], made: Callable[[Line], T]
) -> list[T]:
    """Return what is `made` of each line's object, in their order; blank lines are skipped.

    Raises `DataError` with all that `problems` finds, and with the lines that repeat an earlier `id`.
    """
    found: list[T] = []
    wrong: list[str] = []
    first: dict[str, int] = {}
    for number, line in objects(path):
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


def objects(path: Path | zipfile.Path) -> Iterator[tuple[int, Line | str]]:
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
            yield number, _object(line)


def _object(line: str) -> Line | str:
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


def id_of(line: Line) -> str:
    """Return a line's id, which may be written as a whole number."""
    return str(line["id"])


def id_problems(line: Line, key: str = "question") -> Iterator[str]:
    """Yield what is wrong with a line's `id`, and with the text under `key`."""
    number = line.get("id")
    if not is_text(number) and (not isinstance(number, int) or isinstance(number, bool)):
        yield f"id: {said(line, 'id')}; want a text"
    if not is_text(line.get(key)):
        yield f"{key}: {said(line, key)}; want a text"


def said(line: Line, key: str) -> str:
    """Return what a line says under `key`, for a message."""
    return "missing" if key not in line else "null" if line[key] is None else f"{line[key]!r:.60}"
