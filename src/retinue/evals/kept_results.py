"""Stores an evaluation's results as JSON lines, one for each finished run, so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
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
    old = path.read_bytes() if path.exists() else b""
    with path.open("a", encoding="utf-8") as out:
        out.write("\n" if old and not old.endswith(b"\n") else "")  # the last line is truncated; leave it
        out.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


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
    tools: Any = [(tool.name, tool.description) for tool in agent.tools]
    parts = (agent.model.name, repr(agent.strategy), repr(agent.budget), tools, *more)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def unreadable(result: RunResult) -> int:
    """Return the number of unusable replies, which were requested again."""
    return sum(isinstance(event, Asked) and bool(event.problem) and not event.aside for event in result.events)
