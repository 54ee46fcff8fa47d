"""Runs of a strategy under test, with known tools and a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget
from ..core.events import Called, Event
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, Strategy
from ..core.run_result import RunResult
from ..core.tool import Tool
from ..core.values import AgentAction, AgentFinish, Capabilities, Decision, Message, Reply, Usage
from ..models import PromptModel

QUESTION = "Who knows whom?"
ANSWER = "47 of them"
FINISH = AgentFinish({"output": ANSWER})
ODD_REPLIES = (
    "",
    " \n\t",
    "I do not know what to do.",
    "?" * 20_000,
    "\x00\x1b[2J\ufffe\ud800",
    "null",
    "[]",
    "{}",
    '{"action": null, "actions": {}, "answer": []}',
    '{"actions": [{"action": "lookup", "arguments": {"name": ',
    "[" * 5_000,
    "```json\n{\n```",
    "Thought: \nAction: \nAction Input: ",
    "Action: lookup\nAction Input: p0\n" * 50,
    "Action: no_such_tool[x]\nFinal Answer: \nAction: lookup",
    "<tool_call>{}</tool_call><|im_end|>",
    "1. \n2. \n3. ",
)
Play = Callable[[Ask], Reply]


@dataclass(frozen=True, slots=True)
class StrategySubject:
    """A strategy under test.

    Args:
        make: Returns a new strategy.
        constrained: Run it with a model that supports constrained decoding.
        calls_tools: Run it with a model whose native tool calls work.
    """

    make: Callable[[], Strategy]
    constrained: bool = False
    calls_tools: bool = False

    @property
    def abilities(self) -> Capabilities:
        """The capabilities that the model reports."""
        return Capabilities(constrains=self.constrained, calls_tools=self.calls_tools)


@dataclass
class Played:
    """A model with these capabilities that replies with a function of the request, and records what it was `asked`."""

    replies: Callable[[Ask], Chunks]
    able: Capabilities
    name: str = "played"
    asked: list[Ask] = field(default_factory=list)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return the reported capabilities."""
        return self.able

    def reply(self, request: Ask) -> Chunks:
        """Stream the function's result."""
        self.asked.append(request)
        return self.replies(request)


def playing(subject: StrategySubject, play: Play) -> Played:
    """Return a model that replies with a function of the request, in one piece."""

    async def replies(request: Ask) -> Chunks:
        await asyncio.sleep(0)  # let other tasks run
        reply = play(request)
        yield Reply(reply.text, Usage(1, 1, 0, 1), reply.finish, calls=reply.calls)

    return Played(replies, subject.abilities)


def scripted(subject: StrategySubject, *rules: Any) -> Played:
    """Return a model that follows `rules`, written in the format of the strategy that asks."""
    return Played(PromptModel(script=rules).reply, subject.abilities)


def lookups(count: int, *last: Any) -> list[Any]:
    """Return rules for a model that looks up one person after the other, `p0` to `pN`, and then follows `last`."""
    first = {"when": "^(?!.*known)", "call": {"tool": "lookup", "input": "p0"}}
    more = [{"when": f"p{at} is", "call": {"tool": "lookup", "input": f"p{at + 1}"}} for at in range(count)]
    return [*last, *reversed(more), first]


def agent(subject: StrategySubject, model: Model, tools: Sequence[Tool] | None = None, steps: int = 8) -> Agent:
    """Return an agent with a person who approves everything."""
    return Agent(
        model,
        [LOOKUP, ADD] if tools is None else tools,
        strategy=subject.make(),
        budget=Budget(steps),
        human=_approve,
        trace=False,
    )


async def run(subject: StrategySubject, model: Model, **more: Any) -> RunResult:
    """Return the result for the question."""
    history: tuple[Message, ...] = more.pop("history", ())
    return await agent(subject, model, **more).run_async(QUESTION, history=history)


def saying(text: str) -> Tool:
    """Return a tool `lookup` with the same output for everybody."""

    def look(name: str) -> str:
        return text

    return Tool("lookup", look, "Look somebody up", effects="read")


def finishing(answer: str = ANSWER) -> Play:
    """Return a model that answers every request."""
    return lambda request: request.write(AgentFinish({"output": answer}))


def called(events: Sequence[Event]) -> list[AgentAction]:
    """Return the calls that were made."""
    return [event.action for event in events if isinstance(event, Called)]


def _approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


def _lookup(name: str) -> str:
    return f"{name} is known to many"


def _add(a: int, b: int) -> int:
    return a + b


LOOKUP = Tool("lookup", _lookup, "Look somebody up", effects="read")
ADD = Tool("add", _add, "Add two numbers", effects="read")
