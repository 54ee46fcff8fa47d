"""Tools that take the context of the run: it is given to them, and a model knows nothing of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

import retinue
from retinue import Agent, PromptModel, RunContext, Tool, UsageError, tool

if TYPE_CHECKING:
    from nowhere import Elsewhere  # type: ignore[import-not-found]


@dataclass
class Names:
    """What the tools need."""

    prefix: str


Context = RunContext[Names]


def first(context: RunContext[Names], name: str) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def last(name: str, context: RunContext[Names]) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def by_position(context: RunContext[Names], name: str, /) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def by_name(name: str, *, context: retinue.RunContext[Names]) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def aliased(name: str, context: Context) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def optional(name: str, context: Optional[RunContext[Names]] = None) -> str:  # noqa: UP045 -- people write it
    """Greets."""
    return f"{context.deps.prefix if context else 'nobody'} {name}"


def annotated(name: str, context: Annotated[RunContext[Names], "of the run"]) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def typed_elsewhere(name: str, context: RunContext[Elsewhere]) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


async def asynchronous(context: RunContext[Names], name: str) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


def fixed(greeting: str, name: str, context: RunContext[Names]) -> str:
    """Greets."""
    return f"{greeting} {context.deps.prefix} {name}"


@functools.singledispatch
def dispatched(name: str, context: RunContext[Names]) -> str:
    """Greets."""
    return f"{context.deps.prefix} {name}"


class Greeter:
    """Greets by a method, a call, and a tool's function."""

    def method(self, name: str, context: RunContext[Names]) -> str:
        """Greets."""
        return f"{context.deps.prefix} {name}"

    def __call__(self, context: RunContext[Names], name: str) -> str:
        """Greet."""
        return f"{context.deps.prefix} {name}"


class Component:
    """A component whose tool takes the context."""

    def run(self, query: str) -> str:
        """Run."""
        return query

    def tool_function(self, name: str, context: RunContext[Names]) -> str:
        """Greets."""
        return f"{context.deps.prefix} {name}"


def unannotated() -> Callable[..., Any]:
    """A function whose hints are no texts."""

    def greet(name: str, context: Any) -> str:
        return f"{context.deps.prefix} {name}"

    greet.__annotations__["context"] = RunContext[Names]
    return greet


TOOLS: dict[str, Any] = {
    "first": first,
    "last": last,
    "by position": by_position,
    "by name": by_name,
    "aliased": aliased,
    "optional": optional,
    "annotated": annotated,
    "of a type known elsewhere": typed_elsewhere,
    "async": asynchronous,
    "partial": partial(fixed, "Hello"),
    "dispatched": dispatched,
    "a method": Greeter().method,
    "a callable": Tool("greet", Greeter()),
    "a component": Tool("greet", Component()),
    "hints that are types": unannotated(),
    "decorated": tool(effects="read")(first),
}


@pytest.mark.parametrize("name", TOOLS)
def test_it_is_given_the_context_which_a_model_does_not_see(name: str) -> None:
    made = TOOLS[name] if isinstance(TOOLS[name], Tool) else Tool("greet", TOOLS[name])
    assert list(made.signature.parameters["properties"]) == ["name"]
    call = {"tool": made.name, "input": {"name": "Ada"}}
    agent = Agent[Names, str](PromptModel(script=[{"call": call}, {"finish": "done"}]), [made])
    result = agent.run("Greet her", deps=Names("Dr."))
    assert [step.observations[0].text[-7:] for step in result.steps] == ["Dr. Ada"]


def test_where_it_cannot_be_given_by_a_model_it_cannot_be_forged() -> None:
    call = {"tool": "first", "input": {"name": "Ada", "context": {"deps": {"prefix": "Queen"}}}}
    agent = Agent(PromptModel(script=[{"call": call}, {"finish": "done"}]), [first], strategy="tool_calling")
    (step,) = agent.run("Greet her", deps=Names("Dr.")).steps
    assert step.observations[0].outcome == "invalid_input"


def test_calling_the_function_is_plain() -> None:
    greet = tool(effects="read")(first)
    assert greet(RunContext(Names("Dr.")), "Ada") == "Dr. Ada"


def test_two_contexts_are_refused() -> None:
    def greet(one: RunContext[Names], other: RunContext[Names], name: str) -> str:
        return name

    with pytest.raises(UsageError, match="tool greet: one and other both take the run's context; want one of them"):
        Tool("greet", greet)
