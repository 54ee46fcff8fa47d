"""Agents whose code takes the context of a run, on a server: what it needs, its tools, its reports, its data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.kept_runs import KeptRuns, kept_runs
from retinue import Agent, Decision, PromptModel, RunContext, Tool, ToolReturn, dynamic_tools, tool
from retinue.extend import Started
from retinue.server.agents.overrides import override_agent

CANARY = "only for the application"


@dataclass
class Desk:
    name: str


def desk_of(context: RunContext[None]) -> Desk:
    return Desk(f"the desk of {context.agent}")


@tool(effects="read")
def look(query: str, context: RunContext[Desk]) -> ToolReturn:
    """Looks."""
    context.report("1 of 2 drawers", done=1, total=2)
    return ToolReturn(f"seen at {context.deps.name}", data={"secret": CANARY})


def asks(name: str, answer: str = "done") -> PromptModel:
    return PromptModel(
        script=[{"when": "seen at", "finish": answer}, {"call": {"tool": name, "input": {"query": "x"}}}]
    )


def clerk() -> Agent[Any, Any]:
    return Agent(asks("look"), [dynamic_tools(lambda context: [look])], deps_of=desk_of, strategy="tool_calling")


def events_of(served: Serving, run: str) -> list[Any]:
    answer = served.ask("GET", f"/v1/runs/{run}/events?limit=100")
    assert answer.status == 200, answer.text
    return list(json.loads(answer.text)["data"])


def only_run(served: Serving) -> str:
    runs = json.loads(served.ask("GET", "/v1/runs?limit=10").text)["data"]
    return str(next(one["id"] for one in runs))


def test_what_its_code_needs_reports_and_returns_reaches_those_who_may_see_it(tmp_path: Path) -> None:
    with Serving(tmp_path, {"clerk": clerk()}) as served:
        body = {"model": "clerk", "messages": [{"role": "user", "content": "Begin"}]}
        answer = served.ask("POST", "/v1/chat/completions", body)
        assert answer.status == 200, answer.text
        assert CANARY not in answer.text
        told = {one["type"]: one["data"] for one in events_of(served, only_run(served))}
    assert told["started"]["tools"] == ["look"]
    assert told["reported"] == {"step": 1, "text": "1 of 2 drawers", "call_id": "call_1_0", "done": 1, "total": 2}
    assert told["observed"]["observation"]["text"] == "seen at the desk of agent"
    assert told["observed"]["observation"]["data"] == {"secret": CANARY}


def test_a_member_is_given_what_its_caller_has(tmp_path: Path) -> None:
    member = Agent(asks("look"), [look], name="helper", strategy="tool_calling")
    boss = Agent(
        PromptModel(
            script=[{"when": "done", "finish": "ended"}, {"call": {"tool": "helper", "input": {"query": "x"}}}]
        ),
        [member],
        deps_of=desk_of,
        strategy="tool_calling",
    )
    with Serving(tmp_path, {"boss": boss}) as served:
        body = {"model": "boss", "messages": [{"role": "user", "content": "Begin"}]}
        assert "ended" in served.ask("POST", "/v1/chat/completions", body).text
        seen = [one["data"]["observation"] for one in events_of(served, only_run(served)) if one["type"] == "observed"]
    assert [(one["text"], one["outcome"]) for one in seen] == [
        ("seen at the desk of helper", "result")
    ]  # in its own run


calls: list[str] = []


def instruct(context: RunContext) -> str:
    calls.append(context.run)
    return f"You were asked {len(calls)} times."


@tool(effects="once", approval=True)
def pay(query: str, context: RunContext[Desk]) -> str:
    """Pays."""
    return f"seen at {context.deps.name}"


there: list[Tool] = []


def payer() -> Agent[Any, Any]:
    tools = dynamic_tools(lambda context: list(there))
    return Agent(asks("pay"), [tools], instructions=instruct, deps_of=desk_of, strategy="tool_calling")


async def wait_for_a_person(kept: KeptRuns) -> None:
    assert await kept.driver.drive(await kept.add()) == "waiting"
    await kept.decide({"call_1_0": Decision("approve")})


@pytest.mark.anyio
async def test_another_process_goes_on_with_what_the_run_began_with(any_url: str) -> None:
    calls.clear()
    there[:] = [pay]
    async with kept_runs(any_url, payer) as kept:
        await wait_for_a_person(kept)
        there.insert(0, look)
        assert await kept.another().drive("run_1") == "ended"
        log = await kept.log()
        assert (await kept.said())[-1] == "done"
    assert isinstance(log[0], Started)
    assert (log[0].tools, log[0].instructions) == (("pay",), "You were asked 1 times.")
    assert calls == ["run_1"]


@pytest.mark.anyio
async def test_a_run_whose_tool_is_gone_says_so_and_does_not_go_on(any_url: str) -> None:
    there[:] = [pay]
    async with kept_runs(any_url, payer) as kept:
        await wait_for_a_person(kept)
        there[:] = []
        assert await kept.another().drive("run_1") == "ended"
        row = await kept.row()
    assert row.status == "failed"
    assert row.error is not None
    assert "the tool 'pay', which the run began with, is gone" in row.error.message


def test_a_request_restricts_tools_that_a_function_gives_too() -> None:
    agent = clerk()
    rules = {"type": "mcp", "server_label": "s", "server_url": "", "allowed_tools": ["other"]}
    assert override_agent(agent, {"only_tools": []}).run("Begin").steps[0].observations[0].outcome == "unknown_tool"
    restricted = override_agent(agent, {"tools": [rules]}).run("Begin")
    assert isinstance(restricted.events[0], Started)
    assert restricted.events[0].tools == ()
    always = {"type": "mcp", "server_label": "s", "require_approval": "always"}
    assert override_agent(agent, {"tools": [always]}).run("Begin").stop_reason == "AWAITING_HUMAN"
