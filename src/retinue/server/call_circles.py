"""Circles of agents that call each other over the network: this server's name on the path of callers, and their
refusal."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from functools import partial

from ..core.call_path import HEADER, Caller, Incoming, enter_call_path, parse_callers
from ..errors import DataError, StoreConflict
from ..store.database import Database
from ..store.run_row import RunRow
from ..store.run_store import find_run
from ..store.server_secrets import server_secret
from .wire.api_errors import ApiError

_SECRET = "server id"


class ServerId:
    """The name of this server to others: the same for all that share its database, and after a restart."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = ""
        self._one = asyncio.Lock()

    async def get(self) -> str:
        """Return it."""
        if not self._known:
            async with self._one:
                self._known = self._known or await self._read()
        return self._known

    async def find(self, run_id: str) -> RunRow:
        """Return a run of this server. Raises `DataError` if it does not exist."""
        run = await self._database.read(partial(find_run, run_id=run_id))
        if run is None:
            raise DataError(f"the run {run_id} is gone")
        return run

    async def _read(self) -> str:
        make = partial(server_secret, name=_SECRET, make=True)
        try:
            secret = await self._database.write(make)
        except StoreConflict:  # another server was first
            secret = await self._database.write(make)
        return hashlib.sha256(secret).hexdigest()[:16]


async def incoming_call(headers: Mapping[str, str], server: ServerId) -> Incoming | None:
    """Return who calls, as the header of a request says; `None` if no agent does. Raises `ApiError` (400)."""
    said = headers.get(HEADER)
    if said is None:
        return None
    try:
        return Incoming(await server.get(), parse_callers(said))
    except ValueError as error:
        raise ApiError(400, f"Invalid '{HEADER}': {error}.", param=HEADER, code="invalid_value") from error


async def enter_run(run: RunRow, server: ServerId) -> None:
    """Add the run that the current task drives to the path of callers, which its tools pass on. On behalf of a member
    it is the run at the top of its team, which alone can be called."""
    top = await server.find(run.root_id) if run.root_id else run
    callers = parse_callers(", ".join(top.request.get("callers") or ()))
    enter_call_path([*callers, Caller(await server.get(), top.agent, top.id, top.thread_id or "")])
