"""HotpotQA (Yang et al. 2018): a folder with `questions.jsonl`, and their titles in `supporting.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..questions import Dataset, Question
from .jsonl_lines import Line, are_texts, id_of, is_text, read_lines, said
from .question_file import open_folder, problems, question_of


def open_hotpotqa(path: Path) -> Dataset:
    """Return the questions with their `type` and `level` as tags, and their evidence. Raises `DataError`."""
    whole = open_folder(path)
    file = path / "questions.jsonl" if path.is_dir() else path
    supporting = file.parent / "supporting.jsonl"
    titles = dict(read_lines(supporting, _problems, _titles)) if supporting.is_file() else {}
    asked = [replace(one, evidence=titles.get(one.id, one.evidence)) for one in read_lines(file, problems, _tagged)]
    return replace(whole, questions=tuple(asked))


def _tagged(line: Line) -> Question:
    tags = [line[key] for key in ("type", "level") if is_text(line.get(key))]
    question = question_of(line)
    return replace(question, tags=(*question.tags, *tags))


def _problems(line: Line) -> Iterator[str]:
    if not is_text(line.get("id")):
        yield f"id: {said(line, 'id')}; want a text"
    if not are_texts(line.get("titles")):
        yield f"titles: {said(line, 'titles')}; want a list of texts"


def _titles(line: Line) -> tuple[str, tuple[str, ...]]:
    return id_of(line), tuple(line["titles"])
