"""The error response to a request whose run failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ..core.events import Called
from ..core.tools.tool import Tool
from ..errors import DataError
from ..store.event_log import Entry, read_events
from ..store.run_row import RunRow
from .agents.overrides import tools_of
from .context import Server
from .http.api_errors import ApiError, run_failed_error
from .tools.hosted import HOSTED

FAILED = ("failed", "cancelled", "expired")


async def error_of_run(server: Server, run: RunRow) -> ApiError:
    """Return the error of a failed run. Clients retry failures, so the error tells them not to if a tool that must not
    run twice was started, or if the client's own tools have answered."""
    try:
        log = await server.database.read(partial(read_events, run_id=run.id))
    except DataError:  # unknown, so assume side effects
        return run_failed_error(run, acted=True)
    return run_failed_error(run, acted=bool(run.submissions) or has_side_effects(log, tools_of(server.deployment, run)))


def has_side_effects(log: Sequence[Entry], tools: Mapping[str, Tool]) -> bool:
    """Whether a tool was started that must not run twice, or that is no longer known."""
    harmless = {*HOSTED, *(name for name, tool in tools.items() if tool.effects != "once")}
    return any(isinstance(entry.event, Called) and entry.event.action.tool not in harmless for entry in log)
