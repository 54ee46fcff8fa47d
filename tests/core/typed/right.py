"""What type checkers infer of agents: right uses, of which none is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from retinue import Agent, Hook, PromptModel, RunContext, RunResult, Tool, ToolReturn, dynamic_tools, fork, hook, tool
from retinue.agent import Run
from retinue.extend import Called, Observed


@dataclass
class City:
    name: str
    population: int


class Town(BaseModel):
    name: str


class Row(TypedDict):
    name: str


@dataclass
class Database:
    url: str


class Replica(Database):
    pass


# ── answers ────────────────────────────────────────────────────────────────────────────────────────

assert_type(Agent("local").run("?").answer, str)
assert_type(Agent("local", answer=City).run("?").answer, City)
assert_type(Agent("local", answer=City).run("?").answer.population, int)
assert_type(Agent("local", answer=Town).run("?").answer, Town)
assert_type(Agent("local", answer=Row).run("?").answer, Row)
assert_type(Agent("local", answer=list[City]).run("?").answer, list[City])
assert_type(Agent("local", answer=Literal["yes", "no"]).run("?").answer, Literal["yes", "no"])
assert_type(Agent("local", answer=City | list[Town]).run("?").answer, City | list[Town])
assert_type(Agent("local", answer=int | None).run("?").answer, int | None)
assert_type(Agent("local", answer={"type": "object"}).run("?").answer, Any)
assert_type(Agent("local").with_answers(City).run("?").answer, City)
assert_type(Agent("local", answer=City).run("?").text, str)
assert_type(Agent("local", answer=City).start("?"), Run[City])
assert_type(Agent("local", answer=City).resume([]).answer, City)
assert_type(Agent("local", answer=City).run_batch(["?"]), list[RunResult[City]])


async def in_asynchronous_code(agent: Agent[Database, City]) -> None:
    assert_type((await agent.run_async("?", deps=Database("x"))).answer, City)
    assert_type(await agent.start("?").finish(), RunResult[City])
    async for part in agent.start("?").partial_answers():
        assert part
    await fork(agent, await agent.run_async("?")).finish()


def read_any(result: RunResult[object]) -> str:
    return result.text


read_any(Agent("local", answer=City).run("?"))
read_any(Agent("local").run("?"))

# ── deps ───────────────────────────────────────────────────────────────────────────────────────────


@tool(effects="read")
def look(context: RunContext[Database], query: str) -> ToolReturn:
    """Looks."""
    assert_type(context.deps, Database)
    assert_type(context.user, str)
    assert_type(context.budget_left.steps, int | None)
    context.report("half", done=1, total=2)
    return ToolReturn("rows", data={"url": context.deps.url})


def instruct(context: RunContext[Database]) -> str:
    return context.deps.url


async def instruct_later(context: RunContext[Database]) -> str:
    return context.deps.url


def database_of(context: RunContext[None]) -> Database:
    return Database(context.user)


async def database_later(context: RunContext[None]) -> Database:
    return Database(context.user)


@dynamic_tools
def more_tools(context: RunContext[Database]) -> list[Tool]:
    return [look] if context.deps.url else []


@hook("before_tool")
def allow(event: Called, context: RunContext[Database]) -> None:
    assert_type(event.action.tool, str)
    assert_type(context.deps, Database)


async def note(event: Observed, context: RunContext[Database]) -> None:
    assert_type(event.observation.data, Any)


assert_type(Agent("local", deps_of=database_of), Agent[Database, str])
later: Agent[Database, City] = Agent("local", deps_of=database_later, answer=City)
assert_type(Agent("local", instructions=instruct), Agent[Database, str])
several: Agent[Database] = Agent("local", instructions=["Be short.", instruct, instruct_later])

agent = Agent[Database, City](
    PromptModel("local"),
    [look, more_tools],
    instructions=["Be short.", instruct, instruct_later],
    answer=City,
    deps_of=database_later,
    hooks=[allow, Hook("after_tool", note)],
    max_steps=3,
)
assert_type(agent.run("?", deps=Database("x"), user="ada", metadata={"a": "b"}).answer, City)
agent.run("?", deps=Replica("x"))
agent.resume([], deps=Database("x"))


def schema_of(given: Mapping[str, Any]) -> Agent[Any, Any]:
    return Agent("local", answer=given)
