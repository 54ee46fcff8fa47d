"""Texts beside runs' logs: results that are too long for a prompt, and what stands for long conversations."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from .event_log import Fenced
from .run_row import RunRow
from .tables import run_texts, runs

_AT_ONCE = 500  # keys that are looked up


def put_text(connection: Connection, run: RunRow, key: str, call: str | None, data: bytes) -> None:
    """Keep a text of a run. Raises `Fenced` if another drive has it."""
    held = select(runs.c.id).where(runs.c.id == run.id, runs.c.epoch == run.epoch).with_for_update(read=True)
    if connection.execute(held).first() is None:
        raise Fenced(run.id)
    connection.execute(delete(run_texts).where(run_texts.c.run_id == run.id, run_texts.c.key == key))
    values = {"run_id": run.id, "tenant": run.tenant, "key": key, "call_id": call, "content": data}
    connection.execute(insert(run_texts).values(values))


def find_text(connection: Connection, run: RunRow, keys: Sequence[str], agent: str | None = None) -> bytes | None:
    """Return the last of these texts that a run of the same user has, and of the same `agent`."""
    mine = [run_texts.c.tenant == run.tenant, runs.c.user.is_not_distinct_from(run.user)]
    mine += [] if agent is None else [runs.c.agent == agent]
    with_runs = run_texts.join(runs, runs.c.id == run_texts.c.run_id)
    for end in range(len(keys), 0, -_AT_ONCE):
        some = keys[max(0, end - _AT_ONCE) : end]
        query = select(run_texts.c.key).select_from(with_runs).where(*mine, run_texts.c.key.in_(some))
        there = {*connection.execute(query).scalars()}
        if (key := next((one for one in reversed(some) if one in there), None)) is not None:
            content = select(run_texts.c.content).select_from(with_runs).where(*mine, run_texts.c.key == key)
            found: bytes | None = connection.execute(content.limit(1)).scalar()
            return found
    return None


def find_call_text(connection: Connection, run_id: str, call: str) -> bytes | None:
    """Return the whole result of a call of a run, if it is kept."""
    query = select(run_texts.c.content).where(run_texts.c.run_id == run_id, run_texts.c.call_id == call)
    found: bytes | None = connection.execute(query.limit(1)).scalar()
    return found
