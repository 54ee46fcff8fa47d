"""The tools that come along keep to the contract of tools, and the suite that says so finds those that do not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retinue import (
    Agent,
    Document,
    DocumentStore,
    ExampleCall,
    Pipeline,
    PromptModel,
    Tool,
    ToolError,
    ToolExample,
    tool,
)
from retinue.components import Retriever
from retinue.core.tools.signature import InvalidInput, Signature
from retinue.testing import Case, ToolSubject, tool_cases
from retinue.tools import calculator
from retinue.tools.passages import passages

KEY = "sk-of-this-file-only"  # one that another test had registered would be hidden


@tool(effects="read")
async def look(name: str, year: int = 2020) -> str:
    """Look somebody up."""
    if name == "nobody":
        raise ToolError("there is no such person")
    if name == "for ever":
        await asyncio.Event().wait()
    return f"{name} in {year}"


@tool(effects="idempotent")
def keep(texts: list[str], tags: dict[str, int] | None = None) -> int:
    """Keep texts."""
    if "" in texts:
        raise SystemExit("an empty text")
    return len(texts)


def retriever() -> Retriever:
    store = DocumentStore()
    store.write([Document("Paris is the capital of France.", "1"), Document("Pears are fruit.", "2")])
    return Retriever(store, top_k=1)


def pipeline() -> Tool:
    shouting = Pipeline(name="shouting")
    shouting.add_node(lambda query: query.upper(), "Shout", ["Query"])
    return Tool("shout", shouting, "Say it loudly", effects="read")


def boss() -> Tool:
    return Tool("ask", Agent(PromptModel(script=[{"finish": "47"}]), name="doer"), "Ask another agent")


PAGES = Path(__file__).parents[2] / "docs"
SUBJECTS: Mapping[str, ToolSubject] = {
    "function": ToolSubject(
        lambda: look,
        [{"name": "Ada"}, {"name": "Ada", "year": 1843}],
        [{}, {"name": 3}, {"name": "Ada", "year": "then"}, {"who": "Ada"}],
        [{"name": "nobody"}],
        hanging={"name": "for ever"},
        secret=KEY,
    ),
    "lists": ToolSubject(lambda: keep, [{"texts": ["a"], "tags": {"b": 1}}], ["a", {"texts": "a"}], [{"texts": [""]}]),
    "calculator": ToolSubject(lambda: calculator, ["19 + 23", {"expression": "2^10"}], [{"sum": "1"}], ["1 / 0", "?"]),
    "passages": ToolSubject(lambda: passages(PAGES), ["what survives a crash"], [{"top_k": "x"}]),
    "component": ToolSubject(retriever, ["capital", {"query": "fruit"}], [{"query": 3}, {}]),
    "pipeline": ToolSubject(pipeline, ["hello"], [{"query": ["hello"]}]),
    "agent": ToolSubject(boss, ["How many?"], [{"why": "?"}]),
}


@pytest.mark.matrix
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
@pytest.mark.parametrize("case", tool_cases(), ids=str)
def test_a_tool_keeps_to_the_contract(case: Case[ToolSubject], subject: ToolSubject) -> None:
    case.run(subject)


# ── tools that break it ──────────────────────────────────────────────────────────────────────────


def made(function: Callable[..., Any], **options: Any) -> ToolSubject:
    """`function` as a tool that gets what `look` gets."""
    options = {"name": "look", "description": "Look somebody up", "effects": "read"} | options
    return replace(SUBJECTS["function"], make=lambda: Tool(something=function, **options))


def takes(parameters: Mapping[str, Any], checked: Any = lambda values: values) -> Signature:
    return Signature(parameters, None, checked)


def looking(name: str, year: int = 2020) -> str:
    return f"{name} in {year}"


def vague(name, year=2020):  # type: ignore[no-untyped-def]
    return f"{name} in {year}"


def failing(name: str, year: int = 2020) -> str:
    raise ValueError(f"no connection to https://me:{KEY}@host")


def dicing(name: str, year: int = 2020) -> str:
    return str(random.random())


NUMBERS = count()


def numbering(name: str, year: int = 2020) -> str:
    return str(next(NUMBERS))


UNDER_WAY: list[str] = []


async def overlapping(name: str, year: int = 2020) -> str:
    UNDER_WAY.append(name)
    await asyncio.sleep(0)
    said = " ".join(UNDER_WAY)
    UNDER_WAY.remove(name)
    return said


async def rooted(name: str, year: int = 2020) -> str:
    rooted.__dict__.setdefault("loop", asyncio.get_running_loop())
    if rooted.__dict__["loop"] is not asyncio.get_running_loop():
        raise RuntimeError("attached to a different loop")
    return name


async def ending(name: str, year: int = 2020) -> str:
    return name


async def spawning(name: str, year: int = 2020) -> str:
    task = asyncio.ensure_future(asyncio.Event().wait())
    await asyncio.shield(task)
    return name


def clearing(tags: dict[str, int]) -> str:
    tags.clear()
    return "cleared"


def careless(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": values["name"]}


def strict(values: Mapping[str, Any]) -> Mapping[str, Any]:
    if values != {"name": "Ada"}:
        raise InvalidInput("")
    return values


WHO = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TAGS = {"type": "object", "properties": {"tags": {"type": "object"}}}
TAGGING = replace(made(clearing, takes=takes(TAGS)), valid=[{"tags": {"a": 1}}])


@pytest.mark.parametrize(
    ("subject", "clause", "problem"),
    [
        (made(looking, description=""), "it says what it is for", "look has no description"),
        (made(vague), "its schema says what it takes", "nothing is said of year"),
        (
            made(looking, takes=takes({"type": "thing"})),
            "its schema says what it takes",
            "it is no JSON Schema: 'thing'",
        ),
        (made(looking, takes=takes({"type": "array"})), "its schema says what it takes", "its type is 'array'"),
        (made(looking, takes=takes({**WHO, "required": ["x"]})), "its schema says what it takes", "it requires {'x'}"),
        (
            made(looking, examples=(ToolExample("Who?", (ExampleCall("I look.", {"who": "Ada"}, "Ada"),), "Ada"),)),
            "its examples fit its schema",
            "the input {'who': 'Ada'} in an example is not valid: ",
        ),
        (made(failing), "a valid input comes to a result", "came to failed: .*ValueError"),
        (made(looking, takes=takes(WHO, strict)), "an input may be written as json", "came to invalid_input"),
        (TAGGING, "the input is not changed", "the input before and after: {'tags': {'a': 1}} / {'tags': {}}"),
        (
            made(looking, takes=takes(WHO, careless)),
            "a wrong input is an observation",
            "came to failed.*; want invalid_",
        ),
        (made(looking), "what it raises is an observation", "came to result: 'nobody in 2020'; want .*failed"),
        (made(dicing), "a read repeated gives the same", "the results of {'name': 'Ada'}: '0."),
        (made(numbering), "a read repeated gives the same", "the results of {'name': 'Ada'}: '"),
        (made(overlapping), "calls side by side are independent", "alone, and at once: .*'Ada'.*/.*'Ada Ada"),
        (made(rooted), "blocking code may call it", "unexpectedly raised RuntimeError: attached to a different loop"),
        (made(ending), "a time limit is kept", "it came to result: 'for ever'"),
        (made(spawning), "a time limit is kept", "its call goes on: "),
        (made(ending), "a cancelled call ends", "the input in `hanging` comes to an end"),
        (made(spawning), "a cancelled call ends", "its call goes on: "),
        (made(failing), "a secret is not shown", r"the key is in .*https://me:\*\*\*@host"),
        (made(looking, description=f"With {KEY}"), "a secret is not shown", r"the key is in .*With \*\*\*"),
    ],
    ids=lambda value: "",
)
def test_a_broken_tool_is_found_and_the_clause_named(subject: ToolSubject, clause: str, problem: str) -> None:
    (case,) = [one for one in tool_cases() if one.name == clause]
    with pytest.raises(AssertionError, match=f"^tool: {clause}: .*({problem})"):
        case.run(subject)
