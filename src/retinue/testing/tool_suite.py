"""The contract of every tool: `retinue.Tool`, as an agent calls it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from .._internal.containment import call_contained
from ..agent import Agent
from ..core.tools.signature import InvalidInput
from ..core.tools.tool import Tool, make_tool
from ..core.tools.toolbox import Toolbox
from ..core.values import AgentAction, Observation, StopReason, ToolInput
from ..models import PromptModel
from .case import (
    Case,
    collect_cases,
    format_value,
    need,
    require,
    require_cancelled,
    require_no_new_tasks,
    require_same,
    skip,
)

_TURNS = 100  # iterations of the event loop within which a call starts


@dataclass(frozen=True, slots=True)
class ToolSubject:
    """A tool under test. Cases that lack an input they need are skipped.

    Args:
        make: Returns a new `Tool`, or something that can become one: a function, a component. Tools with effects are
            really called, so let them work on disposable data.
        valid: Inputs for successful calls, at least one.
        invalid: Inputs that do not fit the tool's schema.
        failing: Valid inputs for which the tool raises.
        hanging: An input for which a call never ends by itself.
        secret: A key that it is made with; it may not appear in its `repr` or in anything that a model is shown.
    """

    make: Callable[[], Any]
    valid: Sequence[ToolInput]
    invalid: Sequence[ToolInput] = ()
    failing: Sequence[ToolInput] = ()
    hanging: ToolInput | None = None
    secret: str = field(default="", repr=False)

    def tool(self, **options: Any) -> Tool:
        """Return a new tool with these `options`."""
        return make_tool(self.make(), **options)


def tool_cases() -> tuple[Case[ToolSubject], ...]:
    """Return a tool's conformance suite, for `pytest.mark.parametrize("case", tool_cases(), ids=str)`."""
    return collect_cases("tool", globals())


async def _observe_call(tool: Tool, tool_input: ToolInput) -> Observation:
    """Return the observation of a call made as by an agent."""
    return await Toolbox([tool]).run(AgentAction(tool.name, copy.deepcopy(tool_input), id="call_1"))


async def _call_tool(tool: Tool, tool_input: ToolInput) -> str:
    seen = await _observe_call(tool, tool_input)
    require(seen.outcome == "result", _describe(tool_input, seen))
    return seen.text


def _describe(tool_input: ToolInput, seen: Observation) -> str:
    return f"{format_value(tool_input)} came to {seen.outcome}: {format_value(seen.text)}"


def _make_read_tool(subject: ToolSubject) -> Tool:
    """Return a tool whose results depend on its input alone; skip the check if it is another one."""
    tool = subject.tool()
    if tool.effects != "read" or tool.polls:
        skip("its effects are not `read`, or it polls")
    return tool


async def it_says_what_it_is_for(subject: ToolSubject) -> None:
    """A model is told a tool's name, and its purpose in one line."""
    tool = subject.tool()
    require(tool.description, f"{tool.name} has no description; give it one, or its function a docstring")


async def its_schema_says_what_it_takes(subject: ToolSubject) -> None:
    """The input is described by a JSON Schema of type `object`, in which each argument has a type or similar."""
    schema = subject.tool().signature.parameters
    try:
        Draft202012Validator.check_schema(dict(schema))
        json.dumps(schema)
    except (SchemaError, TypeError, ValueError) as error:
        require(False, f"it is no JSON Schema: {str(error).splitlines()[0]}")
    require(schema.get("type") == "object", f"its type is {schema.get('type')!r}; want 'object'")
    properties = schema.get("properties", {})
    missing = set(schema.get("required", ())) - set(properties)
    require(not missing, f"it requires {missing}, and does not describe it")
    vague = [name for name, one in properties.items() if not set(one) - {"description", "title", "default"}]
    require(not vague, f"nothing is said of {', '.join(vague)}; give it a type hint")


async def its_examples_fit_its_schema(subject: ToolSubject) -> None:
    """The inputs in its worked examples, if it has any, are valid."""
    tool = subject.tool()
    for tool_input in (call.tool_input for example in tool.examples for call in example.calls):
        try:
            tool.signature.arguments(tool_input)
        except InvalidInput as error:
            require(False, f"the input {format_value(tool_input)} in an example is not valid: {error}")


async def a_valid_input_comes_to_a_result(subject: ToolSubject) -> None:
    """A successful call returns a text."""
    for tool_input in need(subject, "valid"):
        text = await _call_tool(subject.tool(), tool_input)
        require(isinstance(text, str), f"the result is {format_value(text)}; want a text")


async def an_input_may_be_written_as_json(subject: ToolSubject) -> None:
    """Values by name may also be one JSON text, as models write them, unless the tool takes a plain text."""
    if subject.tool().signature.text_argument is not None:
        skip("it takes just a text")
    for tool_input in need(subject, "valid"):
        if isinstance(tool_input, dict):
            await _call_tool(subject.tool(), json.dumps(tool_input))


async def the_input_is_not_changed(subject: ToolSubject) -> None:
    """A call does not modify its input, which is part of the run's log."""
    for tool_input in need(subject, "valid"):
        tool, given = subject.tool(), copy.deepcopy(tool_input)
        await Toolbox([tool]).run(AgentAction(tool.name, given, id="call_1"))
        require_same(tool_input, given, "the input before and after")


async def a_wrong_input_is_an_observation(subject: ToolSubject) -> None:
    """An invalid input leads to no call; the model is told what is wrong with it."""
    for tool_input in need(subject, "invalid"):
        tool = subject.tool()
        seen = await _observe_call(tool, tool_input)
        require(seen.outcome == "invalid_input", f"{_describe(tool_input, seen)}; want invalid_input")
        require(tool.name in seen.text, f"{_describe(tool_input, seen)}; want the tool's name in it")


async def any_input_is_an_observation(subject: ToolSubject) -> None:
    """Any input leads to an observation. A tool with effects is only given inputs that its schema refuses."""
    tool = subject.tool()
    for tool_input in _list_odd_inputs(tool):
        if tool.effects == "read" or _is_refused(tool, tool_input):
            seen = await Toolbox([subject.tool()]).run(AgentAction(tool.name, tool_input, id="call_1"))
            told = seen.text or seen.outcome == "result"
            require(told, f"{format_value(tool_input)} came to {seen.outcome}, and no word")


def _list_odd_inputs(tool: Tool) -> Iterator[ToolInput]:
    yield from ("", " \n", "x", "null", "[1, 2]", "{", '{"a": {}}', "\x00\ud800", "?" * 10_000)
    yield from ({}, {"": None}, {"no such argument": 1}, {"\ud800": "\ud800"})
    values: tuple[Any, ...] = (None, "", -1, 1e308, True, [], {}, "\x00\ud800", "?" * 10_000)
    for value in values:
        yield dict.fromkeys(tool.signature.parameters.get("properties", {}), value)


def _is_refused(tool: Tool, tool_input: ToolInput) -> bool:
    try:
        call_contained(tool.signature.arguments, tool_input)
    except InvalidInput:
        return True
    return False


async def what_it_raises_is_an_observation(subject: ToolSubject) -> None:
    """Whatever it raises is reported to the model, and the run continues to its answer."""
    for tool_input in need(subject, "failing"):
        tool = subject.tool()
        call = {"tool": tool.name, "input": copy.deepcopy(tool_input)}
        model = PromptModel(script=[{"when": "^Go on", "call": call}, {"finish": "done"}])
        result = await Agent(model, [replace(tool, approval=False)], trace=False).run_async("Go on.")
        ended = (result.text, result.stop_reason) == ("done", StopReason.ANSWER)
        require(ended, f"the run ended as {result.stop_reason} {result.error}")
        seen = result.steps[0].observations[0]
        wanted = ("unknown", "failed") if tool.effects == "once" else ("failed",)
        require(seen.outcome in wanted, f"{_describe(tool_input, seen)}; want {wanted}")
        require(seen.text.strip(), "the model is told nothing of it")


async def a_read_repeated_gives_the_same(subject: ToolSubject) -> None:
    """A tool with the effects `read` returns the same for the same input (otherwise it `polls`); one that is
    `idempotent` may be called again."""
    tool = subject.tool()
    if tool.effects == "once":
        skip("its effects are `once`: it is not repeated")
    for tool_input in need(subject, "valid"):
        first, second = [await _call_tool(tool, tool_input) for _ in range(2)]
        if tool.effects == "read" and not tool.polls:
            require_same(first, second, f"the results of {format_value(tool_input)}")


async def calls_side_by_side_are_independent(subject: ToolSubject) -> None:
    """Several calls of one reply run concurrently; each returns the same as alone."""
    tool = _make_read_tool(subject)
    inputs = [one for one in need(subject, "valid") for _ in range(3)]
    alone = [await _call_tool(tool, one) for one in inputs]
    require_same(alone, list(await asyncio.gather(*(_call_tool(tool, one) for one in inputs))), "alone, and at once")


async def blocking_code_may_call_it(subject: ToolSubject) -> None:
    """`tool.run` returns the same as `tool.run_async`, from a thread without an event loop."""
    tool = _make_read_tool(subject)
    for tool_input in need(subject, "valid"):
        awaited = await tool.run_async(copy.deepcopy(tool_input))
        require_same(awaited, await asyncio.to_thread(tool.run, copy.deepcopy(tool_input)), "awaited, and blocking")


def _need_hanging_input(subject: ToolSubject) -> ToolInput:
    if subject.hanging is None:  # an empty one is one
        skip("ToolSubject.hanging is not given")
    return subject.hanging


async def a_time_limit_is_kept(subject: ToolSubject) -> None:
    """A call that takes longer than `timeout` is abandoned, and the model is told."""
    hanging, before = _need_hanging_input(subject), asyncio.all_tasks()
    seen = await _observe_call(subject.tool(timeout=0.01), hanging)
    require(seen.outcome in ("timed_out", "unknown"), f"it came to {seen.outcome}: {format_value(seen.text)}")
    require_no_new_tasks(before, "its call goes on")


async def a_cancelled_call_ends(subject: ToolSubject) -> None:
    """A call ends when its run is cancelled, and leaves no task behind."""
    hanging, before = _need_hanging_input(subject), asyncio.all_tasks()
    call = asyncio.ensure_future(_observe_call(subject.tool(), hanging))
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    require(not call.done(), "the input in `hanging` comes to an end; want one with which a call never ends")
    await require_cancelled(call)
    require_no_new_tasks(before | {call}, "its call goes on")


async def a_secret_is_not_shown(subject: ToolSubject) -> None:
    """Neither the `repr` of a tool nor anything that a model is told of it contains its key."""
    secret, tool = need(subject, "secret"), subject.tool()
    told = [repr(tool), tool.description, json.dumps(tool.signature.parameters)]
    inputs = (*subject.valid, *subject.invalid, *subject.failing)
    told += [(await _observe_call(subject.tool(), one)).text for one in inputs]
    for text in told:
        require(secret not in text, f"the key is in {format_value(text.replace(secret, '***'))}")
