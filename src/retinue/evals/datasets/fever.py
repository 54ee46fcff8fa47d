"""FEVER (Thorne et al. 2018): claims that are supported, refuted, or neither, in the JSONL that its task publishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..questions import Dataset, Question
from .jsonl_lines import Line, id_of, id_problems, read_lines, said

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
_ASKED = (
    "Is this claim supported or refuted by what can be found? "
    "Answer SUPPORTS, REFUTES or NOT ENOUGH INFO.\nClaim: {claim}"
)
_WRITTEN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":", "_": " "}


def open_fever(path: Path) -> Dataset:
    """Return the claims in FEVER's `train.jsonl` or `shared_task_dev.jsonl` (its test files have no labels), or in a
    folder with `questions.jsonl` of that form. Raises `DataError`."""
    file = path / "questions.jsonl" if path.is_dir() else path
    passages = file.parent / "passages.jsonl"
    found = read_lines(file, _problems, _question)
    return Dataset(str(path), tuple(found), passages if passages.is_file() else None)


def _problems(line: Line) -> Iterator[str]:
    yield from id_problems(line, "claim")
    if line.get("label") not in LABELS:
        yield f"label: {said(line, 'label')}; want {', '.join(LABELS)}"
    if not isinstance(line.get("evidence", []), list):
        yield f"evidence: {said(line, 'evidence')}; want a list of sets of sentences"


def _question(line: Line) -> Question:
    label = line["label"]
    return Question(
        id_of(line),
        _ASKED.format(claim=line["claim"].strip()),
        (label,),
        evidence=_titles(line.get("evidence", [])),
        tags=(label.lower(),),
        rivals=tuple(one for one in LABELS if one != label),
    )


def _titles(sets: list[Any]) -> tuple[str, ...]:
    """Return the pages of the smallest set of sentences that suffices; those of `NOT ENOUGH INFO` name none."""
    pages = [tuple(dict.fromkeys(filter(None, map(_page, one)))) for one in sets if isinstance(one, list)]
    return min(filter(None, pages), key=len, default=())


def _page(sentence: Any) -> str:
    """Return the title of the page in `[annotation, evidence, page, sentence]`."""
    page = sentence[2] if isinstance(sentence, list) and len(sentence) > 2 else None
    if not isinstance(page, str):
        return ""
    for code, sign in _WRITTEN.items():
        page = page.replace(code, sign)
    return page
