"""A conversation in the terminal: an agent, and the questions that it answered so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TextIO

from ..agent import Agent, Run
from ..core.run_result import RunResult
from ..core.values import Message
from ..display.run_tree import RunTree, View
from ..display.terminal import put
from ..memory.recall import recall_history, remember, without_turns
from .run_output import show_run
from .terminal_echo import terminal_echo


class Turn(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


class Conversation:
    """What was said. A question without an answer is none of its turns."""

    def __init__(self, agent: Agent, view: View) -> None:
        self._memories = agent.memories
        self._agent = agent.with_memory(()) if agent.memories else agent  # so that no turn is told twice
        self._last: Run | None = None
        self.turns: list[Turn] = []
        self.view = view

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self._agent.name

    async def ask(self, question: str) -> bool:
        """Answer a question and show the run. Return whether it is answered. Raises `RetinueError` if the run
        cannot begin, or the model never replies."""
        history = list(self._history())
        if self._memories:
            found = await recall_history(self._memories, question)
            history = [*without_turns(found, history), *history]
        run = self._agent.start(question, history=history)
        self._last = run
        with terminal_echo(on=False):
            await show_run(run, self.view)
        await remember(self._memories, run.log)
        if run.result.answer:
            self.turns.append(Turn(question, run.result.answer))
        return run.result.answered

    def show_last(self, out: TextIO) -> bool:
        """Show the last run with all its texts in full. Return whether there was one."""
        if self._last is None or not self._last.log:
            return False
        result: RunResult = self._last.result
        RunTree(out, partial(put, out), replace(self.view, most=0, head=True)).show_result(result)
        return True

    def begin_anew(self) -> None:
        """Forget the turns. What the agent remembers by its memories stays."""
        self.turns.clear()

    def _history(self) -> Iterator[Message]:
        for turn in self.turns:
            yield Message("user", turn.question)
            yield Message("assistant", turn.answer)
