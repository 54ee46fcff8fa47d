"""What agents remember of users and threads: the states of their memories, as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from .clock import CLOCK
from .prepared_statements import insert_once
from .run_row import RunRow
from .tables import memories

_LONGEST = 256  # characters of a name that is kept as it is


class Owner(NamedTuple):
    """Of whom an agent remembers something: `name` is `login:…`, `user:…` or `thread:…`. `user` is the one who was
    authenticated, if one was."""

    tenant: str
    name: str
    agent: str
    user: str | None = None


class MemoryState(NamedTuple):
    """A memory's state: which kind of memory has it, and its JSON."""

    id: str
    kind: str
    body: str


def user_names(user: str) -> tuple[str, str]:
    """Return the owner's name for a user whom a client named, and for one who was authenticated: what clients say of
    others must not reach it. A long one is hashed."""
    plain = len(user) <= _LONGEST and "\0" not in user
    name = user if plain else hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
    return f"user:{name}", f"login:{name}"


def thread_name(thread_id: str) -> str:
    """Return the owner's name for a thread or a conversation."""
    return f"thread:{thread_id}"


def owner_of(run: RunRow) -> Owner | None:
    """Return of whom a run remembers: its user, else its thread, else nobody. A fork is a trial, so it remembers
    nothing."""
    if run.kind == "fork":
        return None
    if run.user is not None:
        return Owner(run.tenant, user_names(run.user)[1], run.agent, run.user)
    user = run.request.get("user")
    if isinstance(user, str) and user:
        return Owner(run.tenant, user_names(user)[0], run.agent)
    return None if run.thread_id is None else Owner(run.tenant, thread_name(run.thread_id), run.agent)


def read_states(connection: Connection, owner: Owner, *, lock: bool = False) -> Mapping[int, MemoryState]:
    """Return the states that belong to `owner`, by the number of the agent's memory."""
    query = select(memories.c.part, memories.c.id, memories.c.kind, memories.c.body).where(
        memories.c.tenant == owner.tenant, memories.c.owner == owner.name, memories.c.agent == owner.agent
    )
    rows = connection.execute(query.with_for_update() if lock else query)
    return {row.part: MemoryState(row.id, row.kind, row.body) for row in rows}


def put_state(connection: Connection, owner: Owner, part: int, state: MemoryState, before: MemoryState | None) -> bool:
    """Write a state over the one `before`, or as a new one. Return whether it was written: not if another server has
    just written the first one."""
    now = int(CLOCK.now())
    values = {"kind": state.kind, "updated_at": now, "bytes": len(state.body.encode()), "body": state.body}
    if before is None:
        whose = {"tenant": owner.tenant, "owner": owner.name, "agent": owner.agent, "part": part, "user": owner.user}
        return insert_once(connection, memories, {"id": state.id, "created_at": now, **whose, **values})
    connection.execute(update(memories).where(memories.c.id == before.id).values(values))
    return True


def old_memories(connection: Connection, most: int, before: int) -> Sequence[str]:
    """Return the ids of at most `most` memories that did not change since `before`, in Unix seconds."""
    return connection.execute(select(memories.c.id).where(memories.c.updated_at < before).limit(most)).scalars().all()


def delete_memories(connection: Connection, ids: Sequence[str], before: int) -> None:
    """Delete those of the memories, of whichever tenants, that still did not change."""
    connection.execute(delete(memories).where(memories.c.id.in_(ids), memories.c.updated_at < before))


def forget_thread(connection: Connection, tenant: str, thread_id: str) -> None:
    """Delete what is remembered of a thread or a conversation."""
    mine = (memories.c.tenant == tenant, memories.c.owner == thread_name(thread_id))
    connection.execute(delete(memories).where(*mine))
