"""What functions of a run's context say: what its code needs, its instructions, its tools."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, LogMismatch, PromptModel, RunContext, Tool, UsageError, dynamic_tools, replay, tool
from retinue.config.agent_snapshot import rebuild, take_snapshot
from retinue.config.export import SpecWriter
from retinue.extend import Asked, Started

pytestmark = pytest.mark.anyio


@dataclass
class Shop:
    name: str


def greet(context: RunContext[Shop]) -> str:
    return f"Greet {context.user} in {context.deps.name}."


async def greet_later(context: RunContext[Shop]) -> str:
    return greet(context)


def first_message(result: Any) -> str:
    return next(str(event.messages[0].content) for event in result.events if isinstance(event, Asked))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (greet, "Greet ada in Corner."),
        (greet_later, "Greet ada in Corner."),
        ([" Be short. ", greet], "Be short.\n\nGreet ada in Corner."),
        ([greet, lambda context: "", "Be short."], "Greet ada in Corner.\n\nBe short."),
        (["Be short.", "Be kind."], "Be short.\n\nBe kind."),
    ],
)
def test_instructions_may_be_functions_and_are_recorded(given: Any, told: str) -> None:
    agent = Agent(Said(["done"]), instructions=given)
    result = agent.run("Hi", deps=Shop("Corner"), user="ada")
    assert isinstance(result.events[0], Started)
    assert result.events[0].instructions == told
    assert first_message(result).startswith(told)


def test_they_are_called_once_for_a_run_also_if_it_is_resumed_and_replayed() -> None:
    calls: list[str] = []

    def count(context: RunContext) -> str:
        calls.append(context.user)
        return f"You were asked {len(calls)} times."

    look = Tool("look", lambda query: "seen", effects="read")
    call = {"call": {"tool": "look", "input": "x"}}
    agent = Agent(PromptModel(script=[call, {"finish": "done"}]), [look], instructions=count)
    whole = agent.run("Hi", user="ada")
    for length in range(1, len(whole.events)):
        assert agent.resume(whole.events[:length]).events[0] == whole.events[0]
    assert replay(agent, whole).agrees
    assert calls == ["ada"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (lambda context: 3, "instructions: .*<lambda> returned a int; want a text"),
        (lambda context: 1 / 0, "instructions: .*<lambda> failed: ZeroDivisionError"),
    ],
)
def test_a_function_that_fails_ends_the_run_with_one_error(given: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Agent(Said(["done"]), instructions=given).run("Hi")


def test_what_is_neither_text_nor_function_is_refused() -> None:
    with pytest.raises(UsageError, match="instructions: want texts, and functions of the run's context, not 3"):
        Agent(Said([]), instructions=["x", 3])  # type: ignore[list-item]


# ── what its code needs ────────────────────────────────────────────────────────────────────────────


def shop_of(context: RunContext[None]) -> Shop:
    return Shop(f"the shop of {context.user}")


async def shop_later(context: RunContext[None]) -> Shop:
    return shop_of(context)


@tool(effects="read")
def where(query: str, context: RunContext[Shop]) -> str:
    """Where are we?"""
    return context.deps.name


CALL: dict[str, Any] = {"call": {"tool": "where", "input": {"query": "x"}}}


def seen(result: Any) -> str:
    return str(result.steps[0].observations[0].text)


@pytest.mark.parametrize("deps_of", [shop_of, shop_later])
def test_what_its_code_needs_is_made_for_each_run_unless_it_is_given(deps_of: Any) -> None:
    def agent() -> Agent:
        return Agent(PromptModel(script=[CALL, {"finish": "done"}]), [where], deps_of=deps_of)

    result = agent().run("Where?", user="ada")
    assert seen(result) == "the shop of ada"
    assert seen(agent().resume(result.events[:1])) == "the shop of ada"
    assert seen(agent().run("Where?", user="ada", deps=Shop("mine"))) == "mine"
    assert replay(agent(), result).agrees


def test_members_are_given_what_their_caller_has_unless_they_say_themselves() -> None:
    def team(**options: Any) -> Agent:
        member = Agent(PromptModel(script=[CALL, {"finish": "done"}]), [where], name="member", **options)
        call = {"call": {"tool": "member", "input": {"query": "x"}}}
        return Agent(PromptModel(script=[call, {"finish": "done"}]), [member])

    (log,) = team().run("Go", deps=Shop("mine")).children.values()
    assert "mine" in str(log)
    (log,) = team(deps_of=shop_of).run("Go", deps=Shop("mine"), user="ada").children.values()
    assert "the shop of ada" in str(log)


def test_what_it_needs_cannot_be_made() -> None:
    def broken(context: RunContext[None]) -> Shop:
        raise ConnectionError("no database")

    with pytest.raises(UsageError, match=r"deps_of: .*broken failed: ConnectionError: no database"):
        Agent(Said(["done"]), deps_of=broken).run("Hi")


# ── tools ──────────────────────────────────────────────────────────────────────────────────────────


@dynamic_tools
def of_staff(context: RunContext[Shop]) -> list[Tool]:
    return [where] if context.user == "ada" else []


@dynamic_tools
async def of_staff_later(context: RunContext[Shop]) -> list[Tool]:
    return [where] if context.user == "ada" else []


@tool(effects="read")
def look(query: str) -> str:
    """Looks."""
    return "seen"


@pytest.mark.parametrize("source", [of_staff, of_staff_later])
def test_a_function_says_which_tools_a_run_has(source: Any) -> None:
    def agent() -> Agent:
        return Agent(PromptModel(script=[CALL, {"finish": "done"}]), [look, source], deps_of=shop_of)

    result = agent().run("Where?", user="ada")
    assert isinstance(started := result.events[0], Started)
    assert started.tools == ("look", "where")
    assert seen(result) == "the shop of ada"
    assert replay(agent(), result).agrees
    for length in range(1, len(result.events)):
        assert agent().resume(result.events[:length]).events[0] == started
    other = agent().run("Where?", user="bob")
    assert isinstance(other.events[0], Started)
    assert other.events[0].tools == ("look",)
    assert other.steps[0].observations[0].outcome == "unknown_tool"


def test_a_run_goes_on_with_the_tools_it_began_with_or_says_which_is_gone() -> None:
    there = [where, look]
    agent = Agent(PromptModel(script=[CALL, {"finish": "done"}]), [dynamic_tools(lambda context: there)])
    result = agent.run("Where?", deps=Shop("mine"))
    there.insert(0, Tool("more", lambda query: query))
    again = agent.resume(result.events[:1], deps=Shop("mine"))
    assert isinstance(again.events[0], Started)
    assert again.events[0].tools == ("where", "look")
    there.remove(where)
    with pytest.raises(LogMismatch, match="the tool 'where', which the run began with, is gone"):
        agent.resume(result.events[:1], deps=Shop("mine"))


def test_approval_and_names_count_for_them_too() -> None:
    agent = Agent(PromptModel(script=[CALL]), [of_staff], require_human_feedback=["where"], deps_of=shop_of)
    assert [one.tool for one in agent.run("Where?", user="ada").waiting] == ["where"]
    with pytest.raises(UsageError, match="require_human_feedback: no tool 'where'"):
        agent.run("Where?", user="bob")
    with pytest.raises(UsageError, match="two tools are called 'where'"):
        Agent(Said(["done"]), [where, of_staff], deps_of=shop_of).run("Where?", user="ada")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (lambda context: where, "tools: .* returned a Tool; want a list of tools"),
        (lambda context: [Agent(Said([]), name="helper")], "tools: .* returned the agent helper; put it among `tools`"),
        (lambda context: 1 / 0, "tools: .* failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Agent(Said(["done"]), [dynamic_tools(given)]).run("Hi")


# ── what is written of them ────────────────────────────────────────────────────────────────────────


def test_a_snapshot_names_functions_and_an_agent_is_rebuilt_with_them() -> None:
    agent = Agent(Said(["done"]), [look, of_staff], instructions=["Be short.", greet], deps_of=shop_of)
    snapshot = take_snapshot(agent)
    assert snapshot.body["instructions"] == "Be short.\n\n(what greet returns)"
    rebuilt = rebuild(snapshot.body, agent)
    result = rebuilt.run("Hi", user="ada")
    assert isinstance(result.events[0], Started)
    assert result.events[0].tools == ("look", "where")
    assert "Greet ada in the shop of ada." in (result.events[0].instructions or "")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"instructions": greet}, "its instructions have a function, which cannot be written; use a text"),
        ({"tools": [of_staff]}, "dynamic_tools cannot be written, as it is a function; leave it out"),
        ({"deps_of": shop_of}, "deps_of cannot be written, as it is a function; leave it out"),
    ],
)
def test_a_file_cannot_have_them_and_export_says_so(options: Any, problem: str, tmp_path: Any) -> None:
    agent = Agent(PromptModel(script=["done"]), **options)
    with pytest.raises(UsageError, match=problem):
        SpecWriter(tmp_path).add(agent, "agent")


async def test_a_function_that_is_not_async_does_not_hold_up_the_loop() -> None:
    import asyncio

    other = threading.Event()

    def slow(context: RunContext) -> str:
        assert other.wait(20)
        return "Be short."

    running = asyncio.ensure_future(Agent(Said(["done"]), instructions=slow).run_async("Hi"))
    await asyncio.sleep(0)
    other.set()
    assert (await running).answer == "done"


async def test_a_run_is_cancelled_while_a_function_works() -> None:
    import asyncio

    async def slow(context: RunContext) -> str:
        run.cancel()
        await asyncio.sleep(60)
        return ""

    run = Agent(Said(["done"]), instructions=slow).start("Hi")
    assert (await run.finish()).stop_reason == "CANCELLED"
