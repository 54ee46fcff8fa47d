"""What a run is driven with: its agent and its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..agent import Agent
from ..core.values import Image, Message


@dataclass(frozen=True, slots=True)
class RunInput:
    """The agent and input of a run. A resumed run takes its question and history from its log, which has its `images`
    without their bytes.

    `path` is that of the agent in its team, if it is another one than the run asks for: a former run on the thread
    handed the conversation over to it.
    """

    agent: Agent
    question: str = ""
    history: Sequence[Message] = ()
    path: str = ""
    images: Sequence[Image] = ()
