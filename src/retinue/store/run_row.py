"""The stored row of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row

Status = Literal[
    "queued",
    "in_progress",
    "requires_action",
    "cancelling",
    "cancelled",
    "failed",
    "completed",
    "incomplete",
    "expired",
]
ACTIVE: frozenset[str] = frozenset({"queued", "in_progress", "requires_action", "cancelling"})


@dataclass(frozen=True, slots=True)
class RunRow:
    """`request` is the immutable request as JSON; `state` is what became of the run so far. `epoch` numbers its latest
    drive. `holds` means that no other run may start on its thread. `key_id` is the API key that requested it. Times are
    Unix seconds."""

    id: str
    tenant: str
    thread_id: str | None
    created_at: int
    status: Status
    holds: bool
    expires_at: int | None
    epoch: int
    request: Mapping[str, Any]
    state: Mapping[str, Any]
    key_id: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> RunRow:
        """Return the run in a table row."""
        values = row._mapping
        return cls(**{name: values[name] for name in cls.__slots__})

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.status in ACTIVE

    @property
    def rests(self) -> bool:
        """Whether the run has ended, or waits for a person or its client."""
        return self.status == "requires_action" or not self.active
