"""The models that a file offers: its agents and pipelines, by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...agent import Agent
from ...components.speech import SpeechToText, TextToSpeech
from ...config import load_spec
from ...config.builder import Builder
from ...config.references import SPEECH, find_speech, list_exposed, peel_speech
from ...config.specs import AgentSpec, FileSpec
from ...core.protocols import Flow, Task, act
from ...core.tools.tool import Tool
from ...core.values import AgentAction, AgentFinish
from ...errors import DataError, NodeFailed
from ...executor import NoModel
from ...memory import ConversationMemory, EntityMemory
from ...pipelines import Pipeline

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
