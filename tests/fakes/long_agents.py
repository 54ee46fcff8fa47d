"""Agents that do long work: with a list of what is to do, helpers in the background, and prompts that are compacted."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

from retinue import Agent, PromptModel, tool
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.harness import Harness

STEPS = ("Ask two helpers", "Hear the slow one", "Answer")
OPEN = threading.Event()


@tool(effects="read")
def wait() -> str:
    """Wait until the door is open."""
    return "It is open." if OPEN.wait(30) else "It stays shut."


@tool(effects="read")
def report() -> str:
    """Report at length."""
    return "\n".join(f"line {at}: nothing new" for at in range(4_000)) + "\nTHE END"


def reader() -> Agent:
    """Has a result that is longer than what it is shown."""
    script: list[dict[str, Any]] = [{"when": "Report", "call": {"tool": "report", "input": {}}}, {"finish": "Read."}]
    return Agent(PromptModel(script=script), [report], name="reader", strategy="tool_calling")


@tool(effects="read")
def volume(number: int) -> str:
    """Read a volume."""
    return f"Volume {number} of 12. {'It is about much. ' * 80}"


@dataclass
class Librarian:
    """A model that reads volume after volume, and then says how much of them its prompt has."""

    window: int
    name: str = "librarian"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """A window of a few volumes, or of all."""
        return Capabilities(calls_tools=True, window=self.window)

    async def reply(self, request: Ask) -> Chunks:
        """Read on, or answer."""
        messages = request.prompt.messages
        text = "\n".join(one.content for one in messages)
        used = Usage(len(text) // 4, 9, 0, 1, cost=0.001)
        last = re.match(r"Volume (\d+)", messages[-1].content)
        if messages[0].content.startswith("You keep the notes"):
            yield Reply("Some volumes were read.", used)
        elif last and int(last[1]) == 12:
            yield Reply(f"I have {text.count('It is about much.') // 80} volumes before me.", used)
        else:
            following = int(last[1]) + 1 if last else 1
            yield Reply("", used, calls=(AgentAction("volume", {"number": following}),))


def librarian(name: str, window: int) -> Agent:
    """Reads twelve volumes with such a window, in tokens."""
    return Agent(Librarian(window), [volume], name=name, strategy="tool_calling", max_steps=20)


def _todos(done: int) -> dict[str, Any]:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(STEPS)
    items = [{"text": text, "status": status} for text, status in zip(STEPS, states, strict=False)]
    return {"tool": "write_todos", "input": {"items": items}}


def _task(description: str) -> dict[str, Any]:
    return {"tool": "task", "input": {"description": description, "background": True}}


def lead() -> Agent:
    """Asks two helpers, waits for the slow one, and answers."""
    script: list[dict[str, Any]] = [
        {"when": "Wait", "call": {"tool": "wait", "input": {}}},
        {"when": "^It is open", "finish": "The door is open."},
        {"when": "Look", "finish": "Nothing is odd."},
        {"when": "door is open", "finish": "Nothing is odd, and the door is open."},
        {"when": "0 of them completed", "call": [_task("Look closely."), _task("Wait at the door.")]},
        {"when": "1 of them completed", "call": {"tool": "task_result", "input": {"helper": "call_2_1"}}},
        {"when": "is at work", "call": _todos(1)},
        {"when": "", "call": _todos(0)},
    ]
    return Agent(PromptModel(script=script), [wait], name="lead", strategy="tool_calling", harness=Harness())
