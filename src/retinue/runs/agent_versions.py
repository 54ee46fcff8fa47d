"""The agent of a stored run: the one of today, or the one that the run began with, rebuilt from its snapshot."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from .._internal.concurrency import run_in_thread
from ..agent import Agent
from ..config.agent_snapshot import AgentSnapshot, rebuild, take_snapshot
from ..core.tools.delegation import HelperOrder, makes_helpers
from ..errors import AgentChanged, UsageError
from ..run.handoff import Handoff
from ..store.database import Database
from ..store.run_belongings import find_snapshot
from ..store.run_queries import find_run
from ..store.run_row import UNREADABLE, RunRow
from .leases import is_new
from .teams import HELPER

logger = logging.getLogger(__name__)
_KEPT = 50  # agents that were rebuilt
_MOST = 1_000  # snapshots of members


class AgentVersions:
    """Agents by name, with their snapshots, and those that were rebuilt from former snapshots."""

    def __init__(self, agents: Mapping[str, Agent], database: Database) -> None:
        self._agents = agents
        self._database = database
        self._snapshots = {name: _snapshot_of(agent) for name, agent in self._agents.items()}
        self._rebuilt: dict[tuple[str, str], Agent] = {}

    def at(self, path: str) -> Agent | None:
        """Return the agent at this path: one that is served, or a member of its team."""
        return agent_at(self._agents, path)

    def names_at(self, path: str) -> tuple[str, str]:
        """Return the name of the agent at a path, and the address of its model (`HOST:PORT`), or the model's name if it
        has none."""
        agent = self.at(path)
        if agent is None:
            return path, ""
        given: Mapping[str, Any] = getattr(agent.model, "given", {})
        address = urlsplit(str(given.get("base_url") or "")).netloc.rpartition("@")[2]
        return agent.name, address or str(given.get("model_name_or_path") or "")

    def snapshot_of(self, run: RunRow) -> AgentSnapshot | None:
        """Return the snapshot of a run's agent as it is served, if it is."""
        if run.agent not in self._snapshots:
            agent = self.at(run.agent)
            found = None if agent is None else _snapshot_of(agent)
            self._snapshots = dict([*self._snapshots.items(), (run.agent, found)][-_MOST:])
        return self._snapshots[run.agent]

    async def agent_of(self, run: RunRow) -> Agent:
        """Return the agent of an acquired run. Raises `UsageError` if a run that begins, or one without a snapshot, has
        none, and `AgentChanged` if a run cannot go on with what it began with."""
        agent, begins = self.at(run.agent), is_new(run) or not run.snapshot
        if agent is None:
            raise UsageError(f"The model '{run.agent}' does not exist.") if begins else AgentChanged("it is gone")
        now = self.snapshot_of(run)
        if begins or now is None or now.hash == run.snapshot:
            return agent
        key = run.agent, run.snapshot or ""
        if key not in self._rebuilt:
            kept = await self._database.read(partial(find_snapshot, run=run))
            if kept is None:  # somebody else deleted it
                return agent
            try:
                rebuilt = await run_in_thread(partial(rebuild, kept, agent))
            except UNREADABLE as error:
                raise AgentChanged(f"the snapshot of it cannot be read ({type(error).__name__})") from error
            self._rebuilt = dict([*self._rebuilt.items(), (key, rebuilt)][-_KEPT:])
        return self._rebuilt[key]


def agent_at(agents: Mapping[str, Agent], path: str) -> Agent | None:
    """Return the agent at the end of a path: the name of one of these, and then names of tools that are agents."""
    if path in agents:
        return agents[path]
    above, _, name = path.rpartition("/")
    agent = agent_at(agents, above) if above else None
    for tool in agent.tools if agent is not None else ():
        if tool.name == name and makes_helpers(tool):  # which are as their caller
            return agent
        if tool.name == name:
            member = tool.something.agent if isinstance(tool.something, Handoff) else tool.something
            return _pass_deps_on(agent, member) if isinstance(member, Agent) else None
    return None


async def find_agent(run: RunRow, database: Database, find: Callable[[RunRow], Awaitable[Agent]]) -> Agent:
    """Return the agent of a run, as `find` does; that of a helper is made of its caller's, as that began."""
    asked = run.request.get(HELPER)
    if asked is None or asked["agent"]:
        return await find(run)
    caller = await database.read(partial(find_run, run_id=run.parent_id or ""))
    if caller is None:
        raise AgentChanged("the run is gone that made this helper")
    other = copy.copy(await find_agent(caller, database, find))
    other.spec = other.spec.for_helper(HelperOrder(**asked))
    return other


def _pass_deps_on(caller: Agent[Any, Any] | None, member: Agent[Any, Any]) -> Agent[Any, Any]:
    """Return a member whose code is given what its caller's is, unless the member says itself what it needs."""
    if caller is None or caller.spec.deps_of is None or member.spec.deps_of is not None:
        return member
    other = copy.copy(member)
    other.spec = replace(member.spec, deps_of=caller.spec.deps_of)
    return other


def _snapshot_of(agent: Agent) -> AgentSnapshot | None:
    try:
        return take_snapshot(agent)
    except Exception as error:  # of a strategy or a model that we did not write
        logger.warning("the agent %s cannot be described, so its runs go on with whatever it is: %r", agent.name, error)
        return None
