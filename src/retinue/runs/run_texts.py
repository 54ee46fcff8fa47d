"""What a database keeps of a run's texts beside its log: results that are too long for a prompt, and what stands for
long conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from .._internal.concurrency import run_in_thread
from ..core.events import Compacted
from ..core.run_texts import name_result, pack_text, unpack_text
from ..core.serialization import from_json, to_json
from ..errors import StoreUnavailable
from ..limits import LimitReached
from ..limits.quotas import check_bytes
from ..store.database import Database
from ..store.run_row import RunRow
from ..store.run_texts import find_text, put_text
from ..store.tenant_view import TenantView
from .log_writer import ParkedRuns


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
        work = partial(_put, run=self.run, key=name_result(self.run.id, call), call=call, data=data)
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
            await self.database.write(partial(_put, run=self.run, key=digest, call=None, data=data))

    async def find_summary(self, digests: Sequence[str]) -> Sequence[Compacted]:
        """Return what stands for the longest of these beginnings."""
        found = await self.database.read(partial(find_text, run=self.run, keys=digests, agent=self.run.agent))
        events = [] if found is None else [from_json(one) for one in json.loads(unpack_text(found))]
        return [one for one in events if isinstance(one, Compacted)]


def _put(connection: Connection, run: RunRow, key: str, call: str | None, data: bytes) -> None:
    """Keep a text of a run. Raises `Fenced`, and `LimitReached` if its tenant keeps too much."""
    check_bytes(connection, TenantView(run.tenant), len(data))
    put_text(connection, run, key, call, data)
