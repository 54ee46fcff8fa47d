"""What a file offers as models: its agents and its pipelines, each under its name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..agent import Agent
from ..config import load_spec
from ..config.builder import Builder
from ..config.specs import FileSpec
from ..core.protocols import Flow, Task, act
from ..core.tool import Tool
from ..core.values import AgentAction, AgentFinish
from ..errors import DataError, NodeFailed
from ..executor import NoModel
from ..pipelines import Pipeline

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Agents by the names under which clients ask for them; `created` is a Unix time."""

    agents: Mapping[str, Agent]
    created: int = 0

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """All agents and pipelines of a file, built. Raises `DataError` with all that is wrong with it."""
        return cls.of(load_spec(path), int(path.stat().st_mtime))

    @classmethod
    def of(cls, spec: FileSpec, created: int = 0) -> Deployment:
        """All agents and pipelines of a spec, built. Raises `DataError` for one that has none."""
        builder = Builder(spec)
        names = [part.name for part in (*(spec.agents or ()), *(spec.pipelines or ()))]
        if not names:
            raise DataError(f"{spec.source.file}: there are no agents and no pipelines to serve")
        agents = {name: as_agent(builder.get(name)) for name in names}
        for name, agent in agents.items():
            if agent.memories:
                logger.warning("the memory of %s is not used here: a thread is its conversation's memory", name)
        return cls(agents, created)

    @property
    def only(self) -> str | None:
        """The model of who names none: the one agent there is, or, without any, the one pipeline."""
        agents = [name for name, agent in self.agents.items() if not isinstance(agent.strategy, Through)]
        names = agents or list(self.agents)
        return names[0] if len(names) == 1 else None


def as_agent(part: Agent | Pipeline) -> Agent:
    """What answers for `part`: itself, or for a pipeline an agent that asks no model."""
    if isinstance(part, Agent):
        return part
    tool = Tool("pipeline", part, f"the pipeline {part.name}", timeout=600.0)
    return Agent(NoModel(), [tool], strategy=Through(), name=part.name)


@dataclass(frozen=True)
class Through:
    """The strategy of a pipeline: its only tool says the answer."""

    name: str = "pipeline"

    def __call__(self, task: Task) -> Flow:
        """Run the pipeline once."""
        (seen,) = yield from act(AgentAction(task.tools[0].name, task.question))
        if seen.outcome == "result":
            return AgentFinish({"output": seen.text})
        raise NodeFailed(task.tools[0].name, seen.text)
