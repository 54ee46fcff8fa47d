"""An evaluation's runs and verdicts as JSON lines, written as they come in, so that an evaluation can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.events import Event
from ..core.run_result import RunResult, fold_result
from ..core.serialization import from_json, to_json
from ..errors import DataError
from .questions import Question

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")
ANSWERS, VERDICTS = "answers.jsonl", "verdicts.jsonl"


def append_record(record: DataclassInstance, path: Path) -> None:
    """Append a record to the file at once."""
    text = f"{json.dumps(asdict(record), ensure_ascii=False)}\n".encode("utf-8", "replace")
    with path.open("ab+") as file:
        if file.seek(0, SEEK_END):
            file.seek(-1, SEEK_END)
            text = text if file.read() == b"\n" else b"\n" + text  # leaves a truncated line as it is
        file.write(text)


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records in the file, oldest first."""
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                yield kind(**json.loads(line))
            except (ValueError, TypeError):
                continue  # truncated, or from an older version: asked again


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run as it is kept: what it was asked, and its log, from which everything else follows.

    `setup` is a fingerprint of the configuration, `key` of the question as it was put.
    """

    setup: str
    key: str
    configuration: str
    id: str
    question: str
    answer: str
    stop_reason: str
    seconds: float
    events: list[Any]
    children: dict[str, list[Any]] = field(default_factory=dict)


def keep_run(path: Path, name: str, setup: str, key: str, question: Question, run: RunResult) -> None:
    """Append a configuration's run to the file."""
    said = run.text, str(run.stop_reason), run.seconds
    events, *members = [[json.loads(to_json(event)) for event in log] for log in (run.events, *run.children.values())]
    children = dict(zip(run.children, members, strict=True))
    append_record(KeptRun(setup, key, name, question.id, question.question, *said, events, children), path)


def read_runs(path: Path, setup: str) -> dict[str, RunResult]:
    """Return the runs of a setup in the file, by their questions' keys; the first of several counts."""
    found: dict[str, RunResult] = {}
    for record in read_records(path, KeptRun):
        if record.setup == setup and record.key not in found:
            try:
                children = {name: _read_log(log) for name, log in record.children.items()}
                run = fold_result(_read_log(record.events), record.seconds)
            except (DataError, TypeError, AttributeError):
                continue  # damaged, or from another version: asked again
            found[record.key] = replace(run, children=children)
    return found


def _read_log(log: Sequence[Any]) -> tuple[Event, ...]:
    return tuple(from_json(json.dumps(event)) for event in log)
