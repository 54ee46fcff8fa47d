"""What a database keeps of a run's texts beside its log: results that are too long for a prompt, and what stands for
long conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, delete, insert, select

from .._internal.concurrency import run_in_thread
from ..core.events import Compacted
from ..core.run_texts import name_result, pack_text, unpack_text
from ..core.serialization import from_json, to_json
from ..errors import StoreUnavailable
from ..limits import LimitReached
from ..limits.quotas import check_bytes
from ..store.database import Database
from ..store.event_log import Fenced
from ..store.run_row import RunRow
from ..store.tables import run_texts, runs
from ..store.tenant_view import TenantView
from .log_writer import ParkedRuns

_AT_ONCE = 500  # digests that are looked up


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The texts of a run that this process drives, and those of its user's other runs. Finding raises
    `StoreUnavailable`; keeping waits."""

    database: Database
    run: RunRow
    parked: ParkedRuns

    async def keep_result(self, call: str, text: str) -> str:
        """Keep a result; that of the same call is replaced. Return why it cannot be, or an empty text. Raises `Fenced`
        if another process has the run by now."""
        data, tries = await run_in_thread(pack_text, text), 0
        work = partial(put_text, run=self.run, key=name_result(self.run.id, call), call=call, data=data)
        while True:
            try:
                await self.database.write(work)
                return ""
            except LimitReached as error:
                return str(error)
            except StoreUnavailable as error:
                await self.parked.wait(self.run.id, error, tries)
                tries += 1

    async def find_result(self, name: str) -> str | None:
        """Return the result with this name in a run of the same user."""
        found = await self.database.read(partial(find_text, run=self.run, keys=[name]))
        return None if found is None else await run_in_thread(unpack_text, found)

    async def keep_summary(self, digest: str, made: Sequence[Compacted]) -> None:
        """Keep what stands for a conversation, for other runs of the same agent and user."""
        data = pack_text(json.dumps([to_json(one) for one in made]))
        with suppress(StoreUnavailable, LimitReached):  # the next run makes it again
            await self.database.write(partial(put_text, run=self.run, key=digest, call=None, data=data))

    async def find_summary(self, digests: Sequence[str]) -> Sequence[Compacted]:
        """Return what stands for the longest of these beginnings."""
        found = await self.database.read(partial(find_text, run=self.run, keys=digests, agent=self.run.agent))
        events = [] if found is None else [from_json(one) for one in json.loads(unpack_text(found))]
        return [one for one in events if isinstance(one, Compacted)]


def put_text(connection: Connection, run: RunRow, key: str, call: str | None, data: bytes) -> None:
    """Keep a text of a run. Raises `Fenced` if another drive has it, and `LimitReached` if it is too much."""
    held = select(runs.c.id).where(runs.c.id == run.id, runs.c.epoch == run.epoch).with_for_update(read=True)
    if connection.execute(held).first() is None:
        raise Fenced(run.id)
    check_bytes(connection, TenantView(run.tenant), len(data))
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
