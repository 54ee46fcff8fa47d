"""The agent of a stored run: the one that is served, or the one that the run began with, rebuilt from its snapshot."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from .._internal.thread_pool import run_in_thread
from ..agent import Agent
from ..config.agent_snapshot import AgentSnapshot, rebuild, snapshot_of
from ..errors import AgentChanged, UsageError
from ..runs.leases import is_new
from ..store.database import Database
from ..store.run_row import UNREADABLE, RunRow
from ..store.snapshots import Snapshot, find_snapshot
from .deployment import Deployment

logger = logging.getLogger(__name__)
_KEPT = 50  # agents that were rebuilt
_LEVELS = 8  # of agents below one another
_MOST = 2_000


class AgentVersions:
    """The agents of a deployment with their snapshots, and those that were rebuilt from former snapshots."""

    def __init__(self, deployment: Deployment, database: Database) -> None:
        self._agents = {**deployment.agents, **members_of(deployment.agents)}
        self._database = database
        snapshots = {name: _snapshot(agent) for name, agent in self._agents.items()}
        self._snapshots = {name: one for name, one in snapshots.items() if one is not None}
        self._rebuilt: dict[tuple[str, str], Agent] = {}

    def snapshot_of(self, run: RunRow) -> Snapshot | None:
        """Return the snapshot of a run's agent as it is served, if it is."""
        return self._snapshots.get(run.agent)

    async def agent_of(self, run: RunRow) -> Agent:
        """Return the agent of an acquired run. Raises `UsageError` if a run that begins, or one without a snapshot, has
        none, and `AgentChanged` if a run cannot go on with what it began with."""
        agent = self._agents.get(run.agent)
        if agent is None:
            if is_new(run) or not run.snapshot:
                raise UsageError(f"The model '{run.agent}' does not exist.")
            raise AgentChanged("it is gone")
        now = self._snapshots.get(run.agent)
        if is_new(run) or not run.snapshot or now is None or now.hash == run.snapshot:
            return agent
        key = run.agent, run.snapshot
        if key not in self._rebuilt:
            kept = await self._database.read(partial(find_snapshot, run=run))
            if kept is None:  # somebody else deleted it
                return agent
            rebuilt = await run_in_thread(partial(_rebuilt, kept, agent))
            self._rebuilt = dict([*self._rebuilt.items(), (key, rebuilt)][-_KEPT:])
            return rebuilt
        return self._rebuilt[key]


def members_of(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Return the agents that are tools of these, at all levels that a run may have, by the paths of their tools."""
    found: dict[str, Agent] = {}
    level = dict(agents)
    for _ in range(_LEVELS):
        level = {
            f"{name}/{tool.name}": tool.something
            for name, agent in level.items()
            for tool in agent.tools
            if isinstance(tool.something, Agent)
        }
        found |= level
        if len(found) > _MOST:
            raise UsageError(f"a team has at most {_MOST} members; agents that call one another have no end")
    return found


def _snapshot(agent: Agent) -> AgentSnapshot | None:
    try:
        return snapshot_of(agent)
    except Exception as error:  # of a strategy or a model that we did not write
        logger.warning("the agent %s cannot be described, so its runs go on with whatever it is: %r", agent.name, error)
        return None


def _rebuilt(kept: Mapping[str, Any], agent: Agent) -> Agent:
    try:
        return rebuild(kept, agent)
    except UNREADABLE as error:
        raise AgentChanged(f"the snapshot of it cannot be read ({type(error).__name__})") from error
