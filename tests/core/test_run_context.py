"""What code within a run may ask for: which run, which agent, which call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from retinue import Agent, PromptModel, Tool, tool
from retinue._internal.sync_bridge import run_blocking
from retinue.core.run_context import RunContext, current_run, run_context


def answering(*script: object, name: str, tools: Iterable[Tool] = ()) -> Agent:
    return Agent(PromptModel(script=list(script)), tools, strategy="tool_calling", name=name)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_tool_knows_its_run_and_its_call_and_those_before(threaded: bool) -> None:
    seen: list[RunContext] = []

    def look(what: str) -> str:
        seen.append(current_run())
        return f"{what} is seven."

    async def look_async(what: str) -> str:
        return look(what)

    looks = tool(effects="idempotent", name="look", description="Looks.")(look if threaded else look_async)
    one, other = ({"call": {"tool": "look", "input": {"what": what}}, "times": 1} for what in ("it", "that"))
    run = answering(one, other, {"say": "Seven."}, name="guide", tools=[looks]).start("What is it?")
    assert run_blocking(run.finish()).answer == "Seven."
    assert [(here.run, here.agent) for here in seen] == [(run.key, "guide")] * 2
    calls = [here.call for here in seen if here.call is not None]
    assert [(call.tool, call.key, call.effects) for call in calls] == [
        ("look", f"{run.key}/call_1_0", "idempotent"),
        ("look", f"{run.key}/call_2_0", "idempotent"),
    ]
    assert [[action.id for _, action, _ in call.earlier][:1] for call in calls] == [["call_1_0"]] * 2  # it is live
    assert current_run() == RunContext(progress=current_run().progress)


def test_a_run_within_a_call_is_a_run_of_its_own_and_keeps_who_asked() -> None:
    seen: list[RunContext] = []

    async def look() -> str:
        """Look."""
        seen.append(current_run())
        return "seven"

    call = {"call": {"tool": "look", "input": {}}, "times": 1}
    inner = answering(call, {"say": "Seven."}, name="inner", tools=[tool(effects="read")(look)])

    async def ask() -> str:
        """Ask."""
        seen.append(current_run())
        answer = (await inner.run_async("What?")).answer
        seen.append(current_run())
        return answer

    first = {"call": {"tool": "ask", "input": {}}, "times": 1}
    outer = answering(first, {"say": "Seven."}, name="outer", tools=[tool(effects="read")(ask)])
    with run_context(replace(current_run(), request="req_1", client_request="mine")):
        result = outer.run("What is it?")
    assert [here.agent for here in seen] == ["outer", "inner", "outer"]
    assert len({here.run for here in seen}) == 2
    assert {(here.request, here.client_request) for here in seen} == {("req_1", "mine")}
    assert result.usage.total_tokens > 0
    assert [step.observations[0].usage.requests for step in result.steps] == [2]  # the inner run's, charged to the call


def test_a_context_can_be_made_where_a_tool_is_called_directly() -> None:
    assert RunContext[int](deps=3, user="ada").deps == 3
