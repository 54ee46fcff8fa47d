"""A conversation that outgrows the model's window goes on, and what the user said is whole or absent."""

from __future__ import annotations

import pytest

from retinue import Agent, Context, Message, tool
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.errors import WindowExceeded

RULE = "NEVER email customers. " + "Mind this in all that you do. " * 16
QUESTION = "What now? " + "Think of all that was said. " * 20
LIMIT = 9_000  # characters


@tool(effects="read")
def page(number: str) -> str:
    """Read a page."""
    return f"page {number} begins. {'words and more words. ' * 60}page {number} ends."


class Narrow:
    """A model with a small window, of which it may tell. It reads pages where it can call tools, and then answers."""

    name = "narrow"

    def __init__(self, *, tells: bool, native: bool, pages: int) -> None:
        self.asked: list[Ask] = []
        self._able = Capabilities(calls_tools=native, window=LIMIT // 3 if tells else None)
        self._pages = pages

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self._able

    async def reply(self, request: Ask) -> Chunks:
        if len(request.prompt.text) > LIMIT:
            raise WindowExceeded("the prompt is too long")
        self.asked.append(request)
        usage = Usage(len(request.prompt.text) // 3, 9, 0, 1)
        if not self._able.calls_tools:
            yield Reply("Thought: I know.\nFinal Answer: 47", usage)
        elif self._pages:
            self._pages -= 1
            yield Reply("", usage, calls=(AgentAction("page", {"number": str(self._pages)}),))
        else:
            yield Reply("47", usage)


def said(turns: int) -> list[Message]:
    """A conversation in which the assistant says ten times as much as the user, and calls a tool each time."""
    history = [Message("system", "You are kind.")]
    for number in range(turns):
        call = AgentAction("page", {"number": "1"}, id=f"c{number}")
        history += [
            Message("user", f"Turn {number}: {RULE}"),
            Message("assistant", "", calls=(call,)),
            Message("tool", "long " * 100, call_id=f"c{number}", tool="page"),
            Message("assistant", "Old prose. " * 500),
        ]
    return history


@pytest.mark.parametrize("tells", [True, False], ids=["the window is known", "the engine refuses"])
def test_the_oldest_turns_go_and_what_the_user_said_is_never_cut(tells: bool) -> None:
    for turns in (1, 2, 3, 14, 40):
        for pages in (0, 1, 9):
            model = Narrow(tells=tells, native=True, pages=pages)
            agent = Agent(model, [page], strategy="tool_calling", max_steps=12, context=Context(summary=None))
            assert agent.run(QUESTION, history=said(turns)).answer == "47", (turns, pages)
            for asked in model.asked:
                messages = asked.prompt.messages
                texts = [one.content for one in messages if one.role == "user"]
                numbers = [int(text.split()[1].strip(":")) for text in texts if text.startswith("Turn")]
                assert texts == [*(f"Turn {number}: {RULE}" for number in numbers), QUESTION]
                assert numbers == list(range(turns))[-len(numbers) or turns :], "the newest are left"
                assert numbers, "the last turn is there"
                assert any("You are kind." in one.content for one in messages if one.role == "system")
                calls = [call.id for one in messages for call in one.calls]
                assert [one.call_id for one in messages if one.role == "tool"] == calls


def test_a_conversation_that_is_told_as_text_loses_its_oldest_turns() -> None:
    for turns in (1, 5, 40):
        model = Narrow(tells=True, native=False, pages=0)
        agent = Agent(model, [page], strategy="react", context=Context(summary=None))
        history = [
            Message("user" if number % 2 == 0 else "assistant", f"{number}. {RULE}") for number in range(2 * turns)
        ]
        assert agent.run(QUESTION, history=history).answer == "47", turns
        text = model.asked[0].prompt.text
        assert QUESTION.strip() in text
        assert f"{2 * turns - 1}. {RULE}" in text
        assert ("Human: 0. NEVER" in text) == (turns < 5)
