"""The conversation of a run's request: stored in the request, or in a separate table if it is long.

A row is rewritten as a whole whenever its status changes, and all other writes wait for that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from .engines import json_text
from .run_row import RunRow
from .tables import contents

_LONG = 50_000  # characters
_BESIDE = "messages_beside"


def put_beside(connection: Connection, tenant: str, run_id: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store the `messages` of a request separately if they are long. Return the request to store in the run's row."""
    said: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    if sum(len(one["content"]) for one in said) <= _LONG:
        return request
    values = {"tenant": tenant, "id": run_id, "content": json_text(said).encode()}
    connection.execute(insert(contents).values(values))
    return {name: value for name, value in request.items() if name != "messages"} | {_BESIDE: True}


def is_beside(run: RunRow) -> bool:
    """Whether the `messages` of the run's request are stored in a separate table."""
    return bool(run.request.get(_BESIDE))


def conversation_of(connection: Connection, run: RunRow) -> list[Mapping[str, Any]] | None:
    """Return the `messages` of the run's request, wherever they are stored; `None` if it has none."""
    if not is_beside(run):
        return run.request.get("messages")
    query = select(contents.c.content).where(contents.c.id == run.id, contents.c.tenant == run.tenant)
    found: list[Mapping[str, Any]] = json.loads(connection.execute(query).scalar_one())
    return found
