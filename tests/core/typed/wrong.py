"""Wrong uses of agents: type checkers refuse each line that ends in `# wrong`, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from pydantic import BaseModel

from retinue import Agent, RunContext, RunResult, ToolReturn, hook, tool
from retinue.extend import Called


@dataclass
class City:
    population: int


class Town(BaseModel):
    name: str


class Row(TypedDict):
    name: str


@dataclass
class Database:
    url: str


city: str = Agent("local", answer=City).run("?").answer  # wrong
Agent("local", answer=City).run("?").answer.populatoin  # wrong
Agent("local", answer=Town).run("?").answer.population  # wrong
Agent("local", answer=Row).run("?").answer["population"]  # wrong
Agent("local", answer=list[City]).run("?").answer.population  # wrong
Agent("local", answer=City | list[City]).run("?").answer.population  # wrong
chosen: Literal["yes"] = Agent("local", answer=Literal["yes", "no"]).run("?").answer  # wrong
number: int = Agent("local").run("?").answer  # wrong
Agent("local", answer=3)  # wrong
Agent[Database, City]("local", answer=Town)  # wrong
other: RunResult[Town] = Agent("local", answer=City).run("?")  # wrong
Agent("local", answer=City).resume([]).answer.name  # wrong


def instruct(context: RunContext[Database]) -> str:
    return context.deps.uri  # wrong


@tool(effects="read")
def look(query: str, context: RunContext[Database]) -> ToolReturn:
    """Looks."""
    context.deps.uri  # wrong
    context.report(3)  # wrong
    context.budget_left.stepps  # wrong
    return ToolReturn("rows", dta=1)  # wrong


@hook("before_tool")
def allow(event: Called, context: RunContext[Database]) -> None:
    context.deps.uri  # wrong
    event.action.tol  # wrong


def database_of(context: RunContext[None]) -> int:
    return 3


def write_number(context: RunContext[Database]) -> int:
    return 3


agent = Agent[Database, str]("local")
agent.run("?", deps=3)  # wrong
agent.run("?", user=3)  # wrong
agent.resume([], deps=3)  # wrong
Agent[int, str]("local", instructions=instruct)  # wrong
Agent[int, str]("local", instructions=["Be short.", instruct])  # wrong
Agent[Database, str]("local", deps_of=database_of)  # wrong
Agent[Database, str]("local", instructions=write_number)  # wrong
