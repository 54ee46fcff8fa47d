"""What a run is driven with: its agent and its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..agent import Agent
from ..core.tools.toolbox import KeepFiles
from ..core.values import File, Message


@dataclass(frozen=True, slots=True)
class RunInput:
    """The agent and input of a run. A resumed run takes its question and history from its log, which has its `files`
    without their bytes.

    `path` is that of the agent in its team, if it is another one than the run asks for: a former run on the thread
    handed the conversation over to it. `keep_files` stores what its tools return. `given` is
    what its context is told (`Run.given`).
    """

    agent: Agent
    question: str = ""
    history: Sequence[Message] = ()
    path: str = ""
    files: Sequence[File] = ()
    keep_files: KeepFiles | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
