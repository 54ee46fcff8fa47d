"""A program that drives a run with hooks until it has ended, and approves what a person is asked: `URL LEDGER`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fakes.kept_runs import KeptRuns, kept_runs
from retinue import Agent, AskPerson, Block, Change, Decision, Hook, PromptModel, tool
from retinue.core.events import Judged

SECRET = "4111-1111"
SCRIPT: list[dict[str, Any]] = [
    {"when": "is refused", "finish": "paid, I think"},
    {"when": "paid", "finish": f"paid from {SECRET}"},
    {"when": "is 47", "call": {"tool": "pay", "input": {"name": "Ada"}}},
    {"when": "Pay", "call": {"tool": "look", "input": {"name": "Ada"}}},
]


def hide(event: Any, context: Any) -> Any:
    """Change a question and a result in which the secret is."""
    if hasattr(event, "question"):
        return (
            Change(replace(event, question=event.question.replace(SECRET, "[card]"))) if SECRET in str(event) else None
        )
    seen = event.observation
    return (
        Change(replace(event, observation=replace(seen, text=seen.text.replace(SECRET, "[card]"))))
        if SECRET in seen.text
        else None
    )


def judging(ledger: Path) -> Callable[[], Agent]:
    """What makes an agent that pays into `ledger`, with a hook at most points."""

    @tool(effects="once")
    def pay(name: str) -> str:
        """Pay somebody."""
        with ledger.open("a") as file:
            file.write(f"{name}\n")
        return f"paid {name} from {SECRET}"

    @tool(effects="read")
    def look(name: str) -> str:
        """Look somebody up."""
        return f"{name} is 47, card {SECRET}"

    hooks = [
        Hook("before_run", hide, "hide"),
        Hook("before_tool", lambda e, c: AskPerson("a payment") if e.action.tool == "pay" else None, "gate"),
        Hook("after_tool", hide, "hide"),
        Hook("after_tool", lambda e, c: AskPerson("is that so?") if "paid" in e.observation.text else None, "doubt"),
        Hook("before_answer", lambda e, c: Block("a card") if SECRET in e.answer else None, "last"),
    ]
    return lambda: Agent(PromptModel(script=SCRIPT), [look, pay], hooks=hooks, strategy="tool_calling")


async def finish(kept: KeptRuns, ledger: Path) -> str:
    """Drive the run until it has ended, and return its status. Whoever is asked whether it was paid looks it up."""
    while (row := await kept.row()).active:
        log = await kept.log()
        assert not (log and isinstance(log[-1], Judged)), log[-1]
        if row.status == "requires_action":
            paid = os.path.exists(ledger)  # noqa: ASYNC240, PTH110 -- a file of one line
            known = Decision("respond", message="paid Ada") if paid else Decision("approve")
            calls = [one["id"] for one in row.waiting]
            await kept.decide({call: known if call.startswith("call_") else Decision("approve") for call in calls})
        await kept.driver.drive("run_1")
    return row.status


async def main(url: str, ledger: Path) -> None:
    """Add the run if it is not there, and drive it."""
    async with kept_runs(url, judging(ledger)) as kept:
        try:
            await kept.row()
        except AssertionError:
            await kept.add(request={"model": "m", "question": f"Pay Ada from {SECRET}"})
        await finish(kept, ledger)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
