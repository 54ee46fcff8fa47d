"""The report of an evaluation as JSON, for programs such as the studio, and the folders in which reports are found.

A folder is found by its name among those that are there, never by a path. Links are not followed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    by_id = {name: {run.question.id: run for run in its} for name, its in runs.items()}
    return {
        "format": FORMAT,
        "about": list(about),
        "figures": asdict(figures),
        "questions": [
            {
                "id": one.id,
                "question": one.question,
                "gold": one.gold,
                "tags": list(one.tags),
                "runs": {name: _run_record(its[one.id]) for name, its in by_id.items() if one.id in its},
            }
            for one in questions
        ],
    }


def _run_record(run: Run) -> dict[str, Any]:
    return {
        "right": run.marks.right,
        "shares": dict(run.marks.shares),
        "amounts": dict(run.marks.amounts),
        "answer": run.result.answer[:_LONGEST],
        "stop_reason": str(run.result.stop_reason),
        "error": run.result.error,
    }


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """A folder with an evaluation. `written` is when its report was, in Unix seconds; `None`: there is none yet."""

    name: str
    path: Path
    written: int | None

    def read_report(self) -> dict[str, Any] | None:
        """Return the report, or `None` if there is none that this version can read."""
        try:
            text = _read_bytes(self.path / REPORT)
            found = json.loads(text, parse_constant=_replace_constant) if len(text) <= _LARGEST else None
        except (OSError, ValueError, RecursionError):
            return None
        return found if _is_report(found) else None

    def read_run(self, configuration: str, question: str) -> dict[str, Any] | None:
        """Return the record of the run that the report has for a question, or `None` if it is not kept."""
        named: dict[str, Any] | None = None
        needle = f'"id": {json.dumps(question, ensure_ascii=False)}'.encode("utf-8", "replace")
        told = self._find_reported_run(configuration, question)
        for line in _read_lines(self.path / ANSWERS):
            if needle in line and (record := _parse_record(line)) is not None and record["id"] == question:
                same = told is not None and _is_reported_run(record, told)
                if same and record.get("configuration") == configuration:
                    return record
                named = record if same else named
        return named

    def _find_reported_run(self, configuration: str, question: str) -> dict[str, Any] | None:
        questions = (self.read_report() or {}).get("questions", [])
        runs: Iterator[dict[str, Any]] = (one["runs"] for one in questions if one["id"] == question)
        return next((one[configuration] for one in runs if configuration in one), None)


def list_report_folders(root: Path) -> list[ReportFolder]:
    """Return the evaluations in a folder, the newest first: the folder itself, if it is one, and those right in it.

    Raises `OSError` if the folder cannot be read.
    """
    with os.scandir(root) as entries:
        inside = [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
    found = [
        _make_report_folder(one)
        for one in (root.absolute(), *inside)
        if _is_file(one / REPORT) or _is_file(one / ANSWERS)
    ]
    return sorted(found, key=lambda one: (-(one.written or 0), one.name))


def _make_report_folder(path: Path) -> ReportFolder:
    report = path / REPORT
    return ReportFolder(path.name, path, int(report.lstat().st_mtime) if _is_file(report) else None)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _read_bytes(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read(_LARGEST + 1)


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            yield from file
    except OSError:
        return


def _is_report(found: Any) -> bool:
    """Return whether a report has the parts that readers take for granted."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return False
    parts = {"about": list, "figures": dict, "questions": list}
    if any(not isinstance(found.get(name), kind) for name, kind in parts.items()):
        return False
    figures = {"dataset": str, "questions": int, "configurations": list, "tags": dict, "pairs": list}
    return all(isinstance(found["figures"].get(name), kind) for name, kind in figures.items())


def _replace_constant(_: str) -> None:
    """Stand for a number that JSON has no word for."""


def _parse_record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line, parse_constant=_replace_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("events"), list) and "id" in found else None


def _is_reported_run(record: dict[str, Any], told: dict[str, Any]) -> bool:
    answer = str(record.get("answer", ""))[: len(told["answer"]) or 1]
    return bool(answer == told["answer"] and record.get("seconds") == told["amounts"].get("seconds"))
