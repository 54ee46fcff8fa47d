"""What a run is driven with: its agent and its input; and what counts the work on runs while a process is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..agent import Agent
from ..core.tools.toolbox import KeepFiles
from ..core.values import File, Message
from ..store.event_log import Entry
from ..store.run_row import RunRow


@dataclass(frozen=True, slots=True)
class RunInput:
    """The agent and input of a run. A resumed run takes its question and history from its log, which has its `files`
    without their bytes.

    `path` is that of the agent in its team, if it is another one than the run asks for: a former run on the thread
    handed the conversation over to it. `keep_files` stores what its tools return.
    """

    agent: Agent
    question: str = ""
    history: Sequence[Message] = ()
    path: str = ""
    files: Sequence[File] = ()
    keep_files: KeepFiles | None = None


class DriveMeter(Protocol):
    """Counts what one drive commits to its run's log. What it replays is not passed, and no entry is passed twice."""

    def see(self, entries: Sequence[Entry]) -> None:
        """Count entries that are committed."""
        ...


class RunMeter(Protocol):
    """Counts what becomes of runs in this process. Its methods are called in the event loop, after the commit."""

    def drive(self, run: RunRow, log: Sequence[Entry]) -> DriveMeter:
        """Return what counts a drive that found `log`."""
        ...

    def acquired(self, run: RunRow, *, begins: bool, taken_over: bool) -> None:
        """Count a run that this process drives: for the first time of all, or after a process that died."""
        ...

    def drove(self, end: str, seconds: float) -> None:
        """Count a drive that is over, by how it ended."""
        ...

    def ended(self, run: RunRow) -> None:
        """Count a run that this process has ended."""
        ...
