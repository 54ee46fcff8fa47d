"""Stores an evaluation's results as JSON lines, one for each finished run, so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..agent import Agent
from ..core.events import Asked
from ..core.run_result import RunResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")


def keep(record: DataclassInstance, path: Path) -> None:
    """Append a record to the file at once."""
    text = f"{json.dumps(asdict(record), ensure_ascii=False)}\n".encode("utf-8", "replace")
    with path.open("ab") as out:
        out.write(text if _ends_with_a_line(path) else b"\n" + text)  # leaves a truncated line as it is


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, SEEK_END):
            return True
        file.seek(-1, SEEK_END)
        return file.read() == b"\n"


def records(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records in the file, oldest first."""
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                yield kind(**json.loads(line))
            except (ValueError, TypeError):
                continue  # truncated, or from an older version: asked again


async def setup_of(agent: Agent, *more: Any) -> str:
    """Return a fingerprint of everything the answers depend on, so that results of another setup are not reused."""
    await agent.model.abilities()
    tools: Any = [
        (tool.name, tool.description, *([await setup_of(tool.something)] if isinstance(tool.something, Agent) else []))
        for tool in agent.tools
    ]
    parts = (agent.model.name, repr(agent.strategy), repr(agent.budget), tools, *more)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def unreadable(result: RunResult) -> int:
    """Return the number of unusable replies, which were requested again, also of the agents that were called."""
    logs = (result.events, *result.children.values())
    return sum(isinstance(event, Asked) and bool(event.problem) and not event.aside for log in logs for event in log)
