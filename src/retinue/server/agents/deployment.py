"""The models that a file offers: its agents and pipelines, by name."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...agent import Agent
from ...components.speech import SpeechToText, TextToSpeech
from ...config import load_spec
from ...config.agent_code import Target, load_code
from ...config.builder import Builder
from ...config.references import SPEECH, find_speech, list_exposed, peel_speech
from ...config.specs import AgentSpec, FileSpec
from ...core.protocols import Flow, Task, act
from ...core.tools.tool import Tool
from ...core.values import AgentAction, AgentFinish
from ...errors import DataError, NodeFailed, UsageError
from ...executor import NoModel
from ...memory import ConversationMemory, EntityMemory
from ...pipelines import Pipeline
from ...run.spec import list_members
from ...teams.graph_flow import GraphFlow

logger = logging.getLogger(__name__)


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

    def __post_init__(self) -> None:
        for name, agent in self.agents.items():
            for spec in (agent.run_spec(), *list_members(agent.tools)):
                if spec.harness is not None and spec.harness.folder is not None:
                    there = f"harness.workspace: all who are served would share the folder {spec.harness.folder}"
                    raise UsageError(f"{name} cannot be served: {there}; want true, for files of each thread or run")

    @classmethod
    def load(cls, target: Target | Path) -> Deployment:
        """Build all agents and pipelines of a file, or import those of Python code. Raises `DataError` listing
        everything wrong with it."""
        target = Target.parse(target) if isinstance(target, Path) else target
        if not target.code:
            return cls.of(load_spec(target.file), int(target.file.stat().st_mtime))
        return cls.of_parts(load_code(target), int(time.time()))

    @classmethod
    def of_parts(cls, parts: Mapping[str, Agent | Pipeline], created: int = 0) -> Deployment:
        """The deployment of agents and pipelines that Python code made. Runs wait for people by the API, and are shown
        there, so `human`, `trace` and `store` of an agent are not used. Raises `UsageError` for what cannot be served.
        """
        for name, part in parts.items():
            steps = [node.component for node in part.nodes] if isinstance(part, Pipeline) else []
            if isinstance(part, Agent) and isinstance(part.strategy, GraphFlow):
                steps = [tool.something for tool in part.tools]
            if speech := next((one for one in steps if isinstance(one, SpeechToText | TextToSpeech)), None):
                raise UsageError(f"{name} cannot be served: its {type(speech).__name__} reads and writes files here")
        agents = {name: copy.copy(as_agent(part)) for name, part in parts.items()}
        for agent in agents.values():
            _warn_of_memories(agent)
            agent.human, agent.trace, agent.store = None, False, None
        return cls(agents, created)

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
        for agent in agents.values():
            _warn_of_memories(agent)
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


def _warn_of_memories(agent: Agent) -> None:
    for memory in agent.memories:
        if not isinstance(memory, ConversationMemory | EntityMemory):
            kind = type(memory).__name__
            logger.warning("%s of %s is not used by the server: it cannot be kept for each user", kind, agent.name)


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
