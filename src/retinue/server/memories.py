"""The memories of served agents: for each tenant and user, or thread, in the database.

A turn is remembered in the transaction that ends its run, so once. What takes a model is done afterwards.

`/memories`: what the agents remember of users and threads, to be seen and deleted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query
from sqlalchemy import ColumnElement, Connection

from .._internal.containment import await_contained
from ..core.values import Message
from ..errors import DataError, RetinueError
from ..limits.shares import Shares
from ..memory import ConversationMemory, EntityMemory
from ..memory.recall import find_completed_turn, recall_history, without_turns
from ..memory.stored_memory import cut
from ..store.audit_log import record
from ..store.database import Database
from ..store.event_log import Entry
from ..store.memory_states import MemoryState, Owner, owner_of, put_state, read_states, thread_name, user_names
from ..store.run_row import RunRow
from ..store.tables import memories as memory_rows
from ..store.tenant_view import Kept, TenantView
from ..store.usage_sums import bytes_used
from .agents.deployment import Deployment
from .context import ContextDep
from .http.api_errors import ApiError, not_found
from .http.objects import Object, Wanted, deletion_object, find_row, list_rows, new_id

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/memories")
_OURS = ("retinue", "memory")
_LONGEST = 2_000  # tokens of a question or an answer that are remembered
_KEPT = 20_000  # tokens of turns and of entities in a state, for it is read and written whole with each run
Served: TypeAlias = ConversationMemory | EntityMemory
KINDS: dict[type[Any], str] = {ConversationMemory: "conversation", EntityMemory: "entities"}


@dataclass(frozen=True, slots=True)
class ServedMemory:
    """What the agents of a deployment remember, at most `most` bytes for each tenant."""

    deployment: Deployment
    database: Database
    most: int
    shares: Shares = field(default_factory=lambda: Shares(1))

    async def recall(self, run: RunRow, question: str, history: Sequence[Message]) -> list[Message]:
        """Return `history` after what the run's agent remembers for `question`, without turns that are in it."""
        owner = owner_of(run)
        memories = dict(self._memories(run))
        if owner is None or not memories:
            return list(history)
        states = await self.database.read(partial(read_states, owner=owner))
        filled = [_fill(memory, states.get(part)) for part, memory in memories.items()]
        found = await recall_history(filled, question)
        return [*without_turns(found, history), *history]

    def conclude(self, connection: Connection, run: RunRow, log: Sequence[Entry]) -> None:
        """Remember the turn of a run that is over, in the transaction that ends it."""
        owner = owner_of(run)
        memories = dict(self._memories(run))
        turn = find_completed_turn([entry.event for entry in log]) if owner is not None and memories else None
        if owner is None or turn is None:
            return
        if bytes_used(connection, run.tenant, "memories") > self.most:
            logger.warning("nothing is remembered of the run %s: the tenant may keep %d bytes", run.id, self.most)
            return
        for part, memory in memories.items():
            while not _note_turn(connection, owner, part, memory, turn):
                pass  # another server has just written the first state: it is read now

    def is_wanted(self, run: RunRow) -> bool:
        """Whether a run has memories that may have to catch up."""
        return owner_of(run) is not None and any(True for _ in self._memories(run))

    async def catch_up(self, run: RunRow) -> None:
        """Have the models of the memories do what is due after a run. A failure is logged; the next run tries again."""
        if (owner := owner_of(run)) is None:
            return
        for part, memory in self._memories(run):
            async with self.shares.of(run.tenant):
                try:
                    await self._catch_up(owner, part, memory)
                except RetinueError as error:
                    logger.warning("a memory of %s was not brought up to date: %s", run.agent, error)

    async def _catch_up(self, owner: Owner, part: int, memory: Served) -> None:
        while True:
            state = (await self.database.read(partial(read_states, owner=owner))).get(part)
            if state is None or state.kind != KINDS[type(memory)]:
                return
            now = memory.with_state(state.body)
            if not now.is_due():
                return
            await await_contained(now.catch_up())
            if not await self.database.write(partial(_put_back, owner=owner, part=part, began=state, done=now)):
                return

    def _memories(self, run: RunRow) -> Iterator[tuple[int, Served]]:
        agent = self.deployment.agents.get(run.agent)
        for part, memory in enumerate(agent.memories if agent is not None else ()):
            if type(memory) in KINDS:
                assert isinstance(memory, ConversationMemory | EntityMemory)
                yield part, memory


def _note_turn(connection: Connection, owner: Owner, part: int, memory: Served, turn: tuple[str, str]) -> bool:
    """Add a turn to what is remembered. Return whether it was written."""
    before = read_states(connection, owner, lock=True).get(part)
    now = _fill(memory, before)
    now.note(*(cut(text, _LONGEST) for text in turn))
    now.shrink(_KEPT)
    return put_state(connection, owner, part, MemoryState(new_id("mem"), KINDS[type(memory)], now.dump()), before)


def _put_back(connection: Connection, owner: Owner, part: int, began: MemoryState, done: Served) -> bool:
    """Write what a memory caught up with, beside what came to it meanwhile. Return whether it was still wanted."""
    now = read_states(connection, owner, lock=True).get(part)
    if now is None or now.id != began.id:  # somebody deleted it
        return False
    rebased = done.rebase(began.body, now.body)
    if rebased is None:
        return False
    rebased.shrink(_KEPT)
    put_state(connection, owner, part, MemoryState(now.id, now.kind, rebased.dump()), now)
    return True


def _fill(memory: Served, state: MemoryState | None) -> Served:
    """Return the memory with a stored state; with a new one if there is none that it can read."""
    if state is not None and state.kind == KINDS[type(memory)]:
        try:
            return memory.with_state(state.body)
        except DataError as error:
            logger.error("the memory %s begins anew: %s", state.id, error)
    return memory.with_state(None)


def _chosen(
    user: Annotated[str | None, Query(min_length=1)] = None,
    thread_id: Annotated[str | None, Query(min_length=1)] = None,
    model: str | None = None,
) -> list[ColumnElement[bool]]:
    if user is not None and thread_id is not None:
        raise ApiError(400, "Invalid 'thread_id': name either a user or a thread.", param="thread_id")
    names = user_names(user) if user is not None else [thread_name(thread_id)] if thread_id is not None else []
    where = [memory_rows.c.owner.in_(names)] if names else []
    return where + ([] if model is None else [memory_rows.c.agent == model])


Chosen = Annotated[list[ColumnElement[bool]], Depends(_chosen)]


@router.get("")
async def list_memories(context: ContextDep, page: Wanted, chosen: Chosen) -> Object:
    """List what is remembered: of a `user`, of a `thread_id`, by a `model`, or all of it."""
    return await context.read(
        lambda connection, scope: list_rows(connection, scope, memory_rows, page, _object, *chosen),
    )


@router.get("/{memory_id}")
async def retrieve_memory(context: ContextDep, memory_id: str) -> Object:
    """Retrieve one memory."""
    return await context.read(
        lambda connection, scope: _object(find_row(connection, scope, memory_rows, memory_id, "memory")),
    )


@router.delete("")
async def delete_memories(context: ContextDep, chosen: Chosen, model: str | None = None) -> Object:
    """Delete what is remembered of a `user` or a `thread_id`, by all models or by one."""
    if len(chosen) == (model is not None):
        raise ApiError(400, "Missing required parameter: 'user'.", param="user", code="missing_required_parameter")

    def remove(connection: Connection, scope: TenantView) -> int:
        number = scope.remove(connection, memory_rows, *chosen)
        if number:
            record(connection, scope.author, scope.tenant, "memory.deleted", "", {"number": number})
        return number

    number = await context.write(remove)
    return {"object": "memory.deleted", "deleted": number > 0, "number": number}


@router.delete("/{memory_id}")
async def delete_memory(context: ContextDep, memory_id: str) -> Object:
    """Delete one memory."""

    def remove(connection: Connection, scope: TenantView) -> int:
        number = scope.remove(connection, memory_rows, memory_rows.c.id == memory_id)
        if number:
            record(connection, scope.author, scope.tenant, "memory.deleted", memory_id)
        return number

    if not await context.write(remove):
        raise not_found("memory", memory_id)
    return deletion_object(memory_id, "memory")


def _object(row: Kept) -> Object:
    whose, _, name = row.owner.partition(":")
    state: dict[str, Any] = json.loads(row.body)
    return {
        "id": row.id,
        "object": "memory",
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "model": row.agent,
        "user": name if whose in ("user", "login") else None,
        "thread_id": name if whose == "thread" else None,
        "kind": row.kind,
        "bytes": row.bytes,
        "content": {key: value for key, value in state.items() if key not in _OURS},
    }
