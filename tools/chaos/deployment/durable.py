"""A program with agents that keep their runs in a store: it recovers what an earlier process left, and works off
orders, of which each is one run, whichever processes see to it. It plays the person who decides, too.

    python durable.py STORE

It forks for each line that it reads, so that nothing is imported twice: `{"orders": [[number, question, agent], …],
"crash": "POINT:PASSAGE"}`, and writes `{"pid": …}`, what became of the orders, and `{"exit": …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp

import tools
from retinue import Agent, Decision, PromptModel, Tool, UsageError
from retinue.core.events import Called
from retinue.core.hooks import AskPerson, Hook
from retinue.core.run_context import RunContext
from retinue.core.run_result import RunResult
from retinue.durable import agent_runs as agent_runs  # imported before any fork
from retinue.runs import failpoints

_WORLD = os.environ["CHAOS_WORLD"]


def _tools() -> Iterable[Tool]:
    effects: dict[str, Any] = {"look": "read", "note": "idempotent", "pay": "once", "sign": "once"}
    for name, one in effects.items():
        yield Tool(name, getattr(tools, name), f"Does {name}.", effects=one)


def _ask_person(event: Called, context: RunContext[Any]) -> AskPerson | None:
    return AskPerson("signatures are a person's") if event.action.tool == "sign" else None


def _agents(store: str) -> dict[str, Agent]:
    model = PromptModel("worker", engine="openai", base_url=_WORLD, api_key="none", api="chat")
    kept: dict[str, Any] = {"store": store, "recover": True, "strategy": "tool_calling"}
    worker = Agent(model, _tools(), name="worker", max_steps=30, hooks=[Hook("before_tool", _ask_person)], **kept)
    lead = Agent(model, [Tool("hand", worker, "Works off an order.")], strategy="tool_calling", name="lead")
    leads = [Tool(f"lead_{at}", lead, "Sees to an order.") for at in range(2)]
    chief = Agent(model, leads, name="chief", **kept)
    return {"worker": worker, "chief": chief}


async def _decide(result: RunResult, number: str) -> tuple[dict[str, Decision], list[str]]:
    """A truthful person's word on each call, and what it was about."""
    url = f"{_WORLD}/effects"
    async with aiohttp.ClientSession() as session, session.get(url, params={"order": number}) as response:
        there = {one["what"] for one in await response.json()}
    found: dict[str, Decision] = {}
    about = []
    for action in result.waiting:
        arguments = action.tool_input if isinstance(action.tool_input, dict) else {"what": action.tool_input}
        happened = arguments["what"] in there
        answer = Decision("respond", message=f"{action.tool} {arguments['what']}")
        found[action.id] = answer if happened else Decision("approve")
        if action.tool != "sign" or happened:
            about.append("happened" if happened else "missing")
    return found, about


async def _work_off(agent: Agent, number: str, question: str) -> None:
    told: list[str] = []
    while (result := await agent.run_async(question, key=number)).waiting:
        decisions, about = await _decide(result, number)
        try:
            result = await agent.runs.resume_async(result.run, decisions)
        except UsageError:  # another process was first
            continue
        told += about
    _tell(number=number, run=result.run, answer=result.answer, reason=str(result.stop_reason), told=told)


async def _work(orders: Sequence[Sequence[str]]) -> None:
    """Recover, and work off the orders side by side."""
    agents = _agents(sys.argv[1])
    for agent in agents.values():
        await agent.recover_async()
    await asyncio.gather(*(_work_off(agents[name], number, said) for number, said, name in orders))


def _tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Fork for each line."""
    for line in sys.stdin:
        asked = json.loads(line)
        if not (pid := os.fork()):
            failpoints.await_crash(asked["crash"])
            asyncio.run(_work(asked["orders"]))
            os._exit(0)
        _tell(pid=pid)
        _tell(exit=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
