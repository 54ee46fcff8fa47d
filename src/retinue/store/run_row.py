"""A run as it is kept."""

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
    """`request` is what was asked for (JSON, never changed), `state` what came of it so far; `epoch` is the number
    of its last drive; `key_id` that of the key by which it was asked for. Times are Unix seconds."""

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
        """The run in a row of the table."""
        values = row._mapping
        return cls(**{name: values[name] for name in cls.__slots__})

    @property
    def active(self) -> bool:
        """Whether it has not come to its end."""
        return self.status in ACTIVE

    @property
    def rests(self) -> bool:
        """Whether nothing happens by itself any more: it waits for a person or its client, or has ended."""
        return self.status == "requires_action" or not self.active
