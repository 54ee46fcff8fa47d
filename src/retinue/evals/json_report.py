"""The report of an evaluation as JSON, for programs such as the studio: its figures, and the runs by question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .comparison import Figures, Run
from .questions import Question

FORMAT = 1
_LONGEST = 4_000  # characters of an answer; its run has all of it


def json_report(
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
                "runs": {name: _run(its[one.id]) for name, its in by_id.items() if one.id in its},
            }
            for one in questions
        ],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "right": run.marks.right,
        "shares": dict(run.marks.shares),
        "amounts": dict(run.marks.amounts),
        "answer": run.result.answer[:_LONGEST],
        "stop_reason": str(run.result.stop_reason),
        "error": run.result.error,
    }
