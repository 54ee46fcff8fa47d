"""The models that a file offers: its agents and pipelines, by name.

The agent of a stored run: the one that is served, or the one that the run began with, rebuilt from its snapshot.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..._internal.concurrency import run_in_thread
from ...agent import Agent
from ...components.speech import SpeechToText, TextToSpeech
from ...config import load_spec
from ...config.agent_snapshot import AgentSnapshot, rebuild, take_snapshot
from ...config.builder import Builder
from ...config.references import SPEECH, find_speech, list_exposed, peel_speech
from ...config.specs import AgentSpec, FileSpec
from ...core.protocols import Flow, Task, act
from ...core.tools.tool import Tool
from ...core.values import AgentAction, AgentFinish
from ...errors import AgentChanged, DataError, NodeFailed, UsageError
from ...executor import NoModel
from ...memory import ConversationMemory, EntityMemory
from ...pipelines import Pipeline
from ...run.handoff import Handoff
from ...runs.leases import is_new
from ...store.database import Database
from ...store.run_belongings import find_snapshot
from ...store.run_row import UNREADABLE, RunRow

logger = logging.getLogger(__name__)
_KEPT = 50  # agents that were rebuilt
_MOST = 1_000  # snapshots of members


@dataclass(frozen=True, slots=True)
class Deployment:
    """The agents by model name; `created` is in Unix seconds. `extensible` are those whose runs may use the tools that
    their tenants registered. `ears` and `voices` are the file's components of speech by name, and those of agents that
    hear and speak by the agents' names."""

    agents: Mapping[str, Agent]
    created: int = 0
    extensible: frozenset[str] = frozenset()
    ears: Mapping[str, SpeechToText] = field(default_factory=dict)
    voices: Mapping[str, TextToSpeech] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """Build all agents and pipelines of a file. Raises `DataError` listing everything wrong with it."""
        return cls.of(load_spec(path), int(path.stat().st_mtime))

    @classmethod
    def of(cls, spec: FileSpec, created: int = 0) -> Deployment:
        """Build all agents and pipelines of a spec. Raises `DataError` if it has none."""
        spec, ends = peel_speech(spec)
        builder = Builder(spec)
        names = [part.name for part in (*list_exposed(spec), *(spec.pipelines or ()))]
        if not names:
            raise DataError(f"{spec.source.file}: there are no agents and no pipelines to serve")
        for name in names:
            if speech := find_speech(spec, name):
                raise DataError(
                    f"{spec.source.file}: {name} cannot be served: {speech} hears or speaks files of this machine, and "
                    "only the first step of a served chain may hear and only its last one speak (docs/graphs.md, "
                    "Speech); serve such a chain, or set exposed: false"
                )
        agents = {name: as_agent(builder.get(name)) for name in names}
        for name, agent in agents.items():
            for memory in agent.memories:
                if not isinstance(memory, ConversationMemory | EntityMemory):
                    kind = type(memory).__name__
                    logger.warning("%s of %s is not used by the server: it cannot be kept for each user", kind, name)
        extensible = frozenset(
            one.name for one in list_exposed(spec) if isinstance(one, AgentSpec) and one.params.registered_tools
        )
        own = {one.name: one.name for one in spec.components or () if one.type in SPEECH}
        ears = {name: builder.get(part) for name, part in own.items()}
        voices = dict(ears)
        for name, (first, last) in ends.items():
            ears |= {name: builder.get(first)} if first else {}
            voices |= {name: builder.get(last)} if last else {}
        return cls(
            agents,
            created,
            extensible,
            {name: part for name, part in ears.items() if isinstance(part, SpeechToText)},
            {name: part for name, part in voices.items() if isinstance(part, TextToSpeech)},
        )

    @property
    def only(self) -> str | None:
        """The default model: the only agent, or without agents the only pipeline; otherwise `None`."""
        agents = [name for name, agent in self.agents.items() if not isinstance(agent.strategy, Through)]
        names = agents or list(self.agents)
        return names[0] if len(names) == 1 else None


def as_agent(part: Agent | Pipeline) -> Agent:
    """Return an agent that serves `part`: itself, or for a pipeline one that needs no model."""
    if isinstance(part, Agent):
        return part
    tool = Tool("pipeline", part, f"the pipeline {part.name}", timeout=600.0)
    return Agent(NoModel(), [tool], strategy=Through(), name=part.name)


@dataclass(frozen=True)
class Through:
    """The strategy of a pipeline: its only tool gives the answer."""

    name: str = "pipeline"

    def __call__(self, task: Task) -> Flow:
        """Run the pipeline once."""
        (seen,) = yield from act(AgentAction(task.tools[0].name, task.question))
        if seen.outcome == "result":
            return AgentFinish({"output": seen.text})
        raise NodeFailed(task.tools[0].name, seen.text)


class AgentVersions:
    """The agents of a deployment with their snapshots, and those that were rebuilt from former snapshots."""

    def __init__(self, deployment: Deployment, database: Database) -> None:
        self._agents = deployment.agents
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
        if tool.name == name:
            member = tool.something.agent if isinstance(tool.something, Handoff) else tool.something
            return _pass_deps_on(agent, member) if isinstance(member, Agent) else None
    return None


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
