"""Circles of agents that call each other over the network: this server's name on the path of callers, and their
refusal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ...core.run_context import CALLERS_HEADER, Caller, Incoming, current_run, enter_run_context, parse_callers
from ...errors import StoreConflict
from ...store.api_keys import server_secret
from ...store.database import Database
from ...store.run_row import RunRow
from ..http.api_errors import ApiError

_SECRET = "server id"


class ServerId:
    """The name of this server to others: the same for all that share its database, and after a restart."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = ""

    async def get(self) -> str:
        """Return it."""
        if not self._known:
            make = partial(server_secret, name=_SECRET, make=True)
            try:
                secret = await self._database.write(make)
            except StoreConflict:  # another server was first
                secret = await self._database.write(make)
            self._known = hashlib.sha256(secret).hexdigest()[:16]
        return self._known


async def incoming_call(headers: Mapping[str, str], server: ServerId) -> Incoming | None:
    """Return who calls, as the header of a request says; `None` if no agent does. Raises `ApiError` (400)."""
    said = headers.get(CALLERS_HEADER)
    if said is None:
        return None
    try:
        return Incoming(await server.get(), parse_callers(said))
    except ValueError as error:
        raise ApiError(
            400, f"Invalid '{CALLERS_HEADER}': {error}.", param=CALLERS_HEADER, code="invalid_value"
        ) from error


async def enter_run(run: RunRow, server: ServerId) -> None:
    """Add the run that the current task drives to the path of callers, which its tools pass on. On behalf of a member
    it is the run at the top of its team, which alone can be called."""
    callers = parse_callers(", ".join(run.request.get("callers") or ()))
    top = run.request.get("top", run.agent), run.root_id or run.id, run.thread_id or ""
    path = (*callers, Caller(await server.get(), *top))
    enter_run_context(replace(current_run(), callers=path))
