"""`RunSpec`: the frozen parts of an agent. Changing the agent gives it others, and does not affect its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .._internal.containment import call_contained, describe_error, is_own_error
from .._internal.message_text import suggest_name
from ..core.budgets import Budget
from ..core.events import Started
from ..core.hooks import Hook
from ..core.loop.compaction import Context
from ..core.loop.effects import Human
from ..core.prices import find_price
from ..core.protocols import Flow, Memory, Model, Prompting, Refusal, Strategy, Task
from ..core.run_context import RunContext
from ..core.schema.answers import AnswerType
from ..core.tools.delegation import HelperOrder, is_member, makes_helpers
from ..core.tools.tool import Tool
from ..core.tools.toolbox import Toolbox
from ..errors import LogMismatch, UsageError
from ..harness import Harness
from ..strategies.auto import choose_strategy
from ..strategies.given_actions import GivenActions
from ..strategies.wrappers.prompt_additions import ask_otherwise, with_files, with_instructions
from ..strategies.wrappers.reflection import with_reflection
from ..strategies.wrappers.structured_output import with_structured_output
from .run_parts import (
    DepsFunction,
    DynamicTools,
    Instruction,
    find_tools,
    read_instructions,
    with_approval,
    write_instructions,
)

MOST = 8  # questions that are suggested
LONGEST = 200  # characters of one


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The parts of an agent, which `Agent` documents. An agent holds its current ones; a run keeps those it began with.

    `answers` is the type of its answers, `None` if they are text.
    """

    name: str
    model: Model
    strategy: Strategy
    tools: tuple[Tool, ...]
    instructions: str | tuple[Instruction[Any], ...]
    budget: Budget
    human: Human | None
    require_human_feedback: bool | Collection[str]
    answers: AnswerType | None
    memories: tuple[Memory, ...]
    trace: bool
    prompt_node: Prompting | None = None
    questions: tuple[str, ...] = ()
    tool_functions: tuple[DynamicTools[Any], ...] = ()
    deps_of: DepsFunction[Any] | None = None
    hooks: tuple[Hook, ...] = ()
    harness: Harness | None = None
    context: Context = field(default_factory=Context)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))

    def for_run(self) -> RunSpec:
        """Return the parts of a run created now. Raises `UsageError` if they do not fit together."""
        if self.tool_functions:  # what there is, only a run's context says
            return self
        if not self.tools and isinstance(self.strategy, GivenActions):
            raise UsageError(f"{self.name} has no tools to run; pass some: Executor([…])")
        asked = self.require_human_feedback
        if asked and asked is not True:
            names = [tool.name for tool in self.tools]
            if unknown := [name for name in asked if name not in names]:
                raise UsageError(f"require_human_feedback: no tool {unknown[0]!r}; {suggest_name(unknown[0], names)}")
        if self.answers is None:
            return self
        return replace(self, tools=tuple(replace(tool, return_direct=False) for tool in self.tools))  # none may answer

    async def complete(self, context: RunContext[Any], begun: Started | None) -> RunSpec:
        """Return the parts of a run in this context, for which their functions were called. A run that has `begun` goes
        on with the instructions and the tools that it began with. Raises `UsageError` if a function fails, and
        `LogMismatch` if a tool is gone."""
        words, tools, kept = self.instructions, self.tools, None
        if not isinstance(words, str):
            kept = None if begun is None else begun.instructions
            words = await write_instructions(words, context) if kept is None else kept
        if self.harness is not None and kept is None:
            words = "\n\n".join(filter(None, (words, self.harness.instructions)))
        if self.tool_functions:
            found = [
                with_approval(one, self.require_human_feedback)
                for one in await find_tools(self.tool_functions, context)
            ]
            there = {tool.name: tool for tool in (*tools, *found)}
            Toolbox([*tools, *found])  # raises if two have one name
            if begun is not None and (gone := [name for name in begun.tools if name not in there]):
                raise LogMismatch(f"the tool {gone[0]!r}, which the run began with, is gone")
            tools = tuple(there[name] for name in (there if begun is None else begun.tools))
        return replace(self, instructions=words, tools=tools, tool_functions=()).for_run()

    def for_helper(self, order: HelperOrder) -> RunSpec:
        """Return the parts of a helper of a run with these: as this, with what the order lets it have. It is told the
        same instructions, too, since what they forbid holds for it as well."""

        def narrow(before: Callable[[list[Tool]], list[Tool]]) -> Callable[[list[Tool]], list[Tool]]:
            return lambda found: _pass_on_tools(before(found), order)

        parts = [self.instructions] if isinstance(self.instructions, str) else self.instructions
        asked = self.require_human_feedback
        return replace(
            self,
            name="helper",
            tools=tuple(_pass_on_tools(self.tools, order)),
            tool_functions=tuple(replace(one, narrow=narrow(one.narrow)) for one in self.tool_functions),
            instructions=read_instructions([*parts, _HELPER, order.instructions]),
            require_human_feedback=asked if isinstance(asked, bool) else {*asked} & {*order.tools},
            answers=None,
            memories=(),
            questions=(),
            trace=False,
        )

    def run_spec(self) -> RunSpec:
        """Return this; so a specification has runs as an agent has."""
        return self

    def begin(self, started: Started, refusal: Refusal | None = None) -> tuple[Started, Flow]:
        """Return the first event of a run, completed with what this agent is, and the strategy's generator. `started`
        has the question and what the model can do; if the run is recorded, also its strategy and instructions. With a
        `refusal`, the question is asked again. Raises `UsageError` if the strategy cannot begin.
        """
        question = started.question if refusal is None else ask_otherwise(started.question, refusal)
        able, given = started.abilities, (question, self.tools, started.history)
        task = Task(*given, able.constrains, able.calls_tools, able.scripted, started.files, able.window)
        strategy = choose_strategy(self.strategy, task, started.strategy)
        named = getattr(strategy, "name", type(strategy).__name__)
        instructions = self.instructions if started.instructions is None else started.instructions
        assert isinstance(instructions, str), "the parts of a run are completed before it begins"

        def make_flow() -> Flow:
            wrapped = with_instructions(strategy, instructions)
            if any(tool.reflections for tool in task.tools):
                wrapped = with_reflection(wrapped)
            if self.answers is not None:
                wrapped = with_structured_output(wrapped, self.answers)
            return with_files(wrapped, task)(task)

        try:
            flow = call_contained(make_flow)
        except Exception as error:
            if is_own_error(error):
                raise
            raise UsageError(f"the strategy {named!r} failed: {describe_error(error)}") from error
        if not isinstance(flow, Generator):
            raise UsageError(f"the strategy {named!r} returned a {type(flow).__name__}; want a generator")
        tools = tuple(tool.name for tool in self.tools)
        started = replace(started, agent=self.name, strategy=strategy.name, model=self.model.name, tools=tools)
        return started, flow


_HELPER = (
    "You are a helper: another agent gave you one task. It sees nothing of what you do but your answer, so put all "
    "that the task asks for into it."
)


def _pass_on_tools(tools: Iterable[Tool], order: HelperOrder) -> list[Tool]:
    """Return those of its caller's tools that a helper has."""
    passed = [tool for tool in tools if tool.name in order.tools]
    passed = [replace(tool, approval=True) if tool.name in order.approval else tool for tool in passed]
    less = {tool.name: tool.something.below(order.depth) for tool in passed if makes_helpers(tool)}
    return [replace(tool, something=less[tool.name]) if tool.name in less else tool for tool in passed]


def check_prices(model: Model, tools: Iterable[Tool], budget: Budget) -> None:
    """Raise `UsageError` if `budget` limits the cost, and the prices of `model`, or of a member among `tools`, are not
    known."""
    if budget.cost is None:
        return
    for one in (model, *(spec.model for spec in list_members(tools))):
        if find_price(one) is None:
            raise UsageError(
                f"a budget of cost needs the prices of the model {one.name!r}: give it "
                "price={'input': …, 'output': …}, for a million tokens each "
                "(pip install 'retinue[facts]' brings those of many hosted models)"
            )


def list_members(tools: Iterable[Tool]) -> Iterator[RunSpec]:
    """Yield what the members among `tools`, and theirs, are made of, each once."""
    left, seen = list(tools), set[int]()
    while left:
        tool = left.pop()
        if is_member(tool) and id(tool.something) not in seen:
            seen.add(id(tool.something))
            spec: RunSpec = tool.something.run_spec()
            yield spec
            left += spec.tools


class Specified(Protocol):
    """An object that has runs, such as an agent."""

    def run_spec(self) -> RunSpec:
        """Return the specification of a run created now."""
        ...


# ── what one may ask ─────────────────────────────────────────────────────────────────────────────


def as_question(text: str) -> str:
    """Return a suggested question without the blanks around it. Raises `ValueError`."""
    question = text.strip()
    if len(question.splitlines()) != 1 or len(question) > LONGEST:
        raise ValueError(f"want a question in one line of at most {LONGEST} characters")
    return question


def check_suggested(questions: Iterable[str]) -> tuple[str, ...]:
    """Return suggested questions for an agent. Raises `UsageError`."""
    wanted = f"want a list of at most {MOST} texts, such as ['What can you do?']"
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise UsageError(f"questions: {wanted}, not {questions!r:.80}")
    given = list(questions)
    if len(given) > MOST:
        raise UsageError(f"questions: {wanted}, not {len(given)} of them")
    for at, one in enumerate(given):
        try:
            given[at] = as_question(one)
        except (AttributeError, ValueError) as error:
            why = f"want a text, not {one!r:.80}" if isinstance(error, AttributeError) else error
            raise UsageError(f"questions[{at}]: {why}") from error
    return tuple(given)
