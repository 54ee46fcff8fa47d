"""The report of an evaluation as JSON, for programs such as the studio, and the folders in which reports are found.

A folder is found by its name among those that are there, never by a path. Links are not followed.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .comparison import Figures, Run
from .kept_results import ANSWERS
from .questions import Question

REPORT, FORMAT = "report.json", 1
_LONGEST = 4_000  # characters of an answer; its run has all of it
_LARGEST = 50_000_000  # bytes of a report


def build_json_report(
    figures: Figures, about: Sequence[str], questions: Iterable[Question], runs: Mapping[str, Sequence[Run]]
) -> dict[str, Any]:
    """Return the report: the lines `about` the evaluation, its figures, and by question what each configuration
    answered, with its marks."""
    answered: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, its in runs.items():
        for run in its:
            answered[run.question.id][name] = {
                "right": run.marks.right,
                "shares": dict(run.marks.shares),
                "amounts": dict(run.marks.amounts),
                "answer": run.result.text[:_LONGEST],
                "stop_reason": str(run.result.stop_reason),
                "error": run.result.error,
            }
    by_question = [
        {"id": one.id, "question": one.question, "gold": one.gold, "tags": list(one.tags), "runs": answered[one.id]}
        for one in questions
    ]
    return {"format": FORMAT, "about": list(about), "figures": asdict(figures), "questions": by_question}


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """A folder with an evaluation. `written` is when its report was, in Unix seconds; `None`: there is none yet."""

    name: str
    path: Path
    written: int | None

    def read_report(self) -> dict[str, Any] | None:
        """Return the report, or `None` if there is none that this version can read."""
        try:
            with _open_file(self.path / REPORT) as file:
                text = file.read(_LARGEST + 1)
        except OSError:
            return None
        found = _parse_object(text) if len(text) <= _LARGEST else {}
        return found if _is_report(found) else None

    def read_run(self, configuration: str, question: str) -> dict[str, Any] | None:
        """Return the record of the run that the report has for a question, or `None` if it is not kept."""
        questions = (self.read_report() or {}).get("questions", [])
        told = next((one["runs"].get(configuration) for one in questions if one["id"] == question), None)
        if told is None:
            return None
        other: dict[str, Any] | None = None  # the same run, kept under another name of the configuration
        needle = f'"id": {json.dumps(question, ensure_ascii=False)}'.encode("utf-8", "replace")
        with suppress(OSError), _open_file(self.path / ANSWERS) as file:
            for line in file:
                record = _parse_object(line) if needle in line else {}
                if record.get("id") == question and _is_reported_run(record, told):
                    if record.get("configuration") == configuration:
                        return record
                    other = record
        return other


def list_report_folders(root: Path) -> list[ReportFolder]:
    """Return the evaluations in a folder, the newest first: the folder itself, if it is one, and those right in it.

    Raises `OSError` if the folder cannot be read.
    """
    with os.scandir(root) as entries:
        inside = [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
    found = []
    for path in (root.absolute(), *inside):
        report, answers = (one.is_file() and not one.is_symlink() for one in (path / REPORT, path / ANSWERS))
        if report or answers:
            written = int((path / REPORT).lstat().st_mtime) if report else None
            found.append(ReportFolder(path.name, path, written))
    return sorted(found, key=lambda one: (-(one.written or 0), one.name))


def _open_file(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")


def _parse_object(text: bytes) -> dict[str, Any]:
    """Return an object in JSON, in which numbers that JSON has no word for are null; an empty one if it is none."""
    try:
        found = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_report(found: dict[str, Any]) -> bool:
    """Return whether a report has the parts that readers take for granted."""
    parts = {"about": list, "figures": dict, "questions": list}
    figures = {"dataset": str, "questions": int, "configurations": list, "tags": dict, "pairs": list}
    return (
        found.get("format") == FORMAT
        and all(isinstance(found.get(name), kind) for name, kind in parts.items())
        and all(isinstance(found["figures"].get(name), kind) for name, kind in figures.items())
    )


def _is_reported_run(record: dict[str, Any], told: dict[str, Any]) -> bool:
    answer = str(record.get("answer", ""))[: len(told["answer"]) or 1]
    same = answer == told["answer"] and record.get("seconds") == told["amounts"].get("seconds")
    return same and isinstance(record.get("events"), list)
