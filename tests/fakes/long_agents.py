"""An agent that does long work: it keeps a list of what is to do, writes files, and has helpers in the background."""

from __future__ import annotations

import threading
from typing import Any

from retinue import Agent, PromptModel, tool
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
