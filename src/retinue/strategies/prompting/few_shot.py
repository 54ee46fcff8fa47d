"""Worked examples in prompts, put together from those of the tools at hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from ...core.delegation import is_member
from ...core.tool import Tool
from ...core.tool_example import ExampleCall, ToolExample
from ...core.values import ToolInput

_KNOWN = "I now know the final answer."
_MOST = 2  # examples in a prompt, since a small model reads some hundred tokens in ten seconds


class ExampleStep(NamedTuple):
    """A step of an example: the tool it uses, a thought, the tool's input, and the observation."""

    tool: Tool
    thought: str
    tool_input: ToolInput
    observation: str


class Example(NamedTuple):
    """A worked example."""

    question: str
    steps: tuple[ExampleStep, ...]
    thought: str
    answer: str


class _Owned(NamedTuple):
    """An example of a tool."""

    tool: Tool
    example: ToolExample


def examples_for(tools: Sequence[Tool]) -> tuple[Example, ...]:
    """Return at most two worked examples that show the use of as many tools as possible.

    Where an example of one tool goes on from the answer of another one's, the two are one example of both tools. It
    comes last, after the first example of a tool that it leaves out or, if there is none, another one of its own tools.
    """
    owned = [_Owned(tool, example) for tool in tools for example in _examples_of(tool)]
    linked = next(_links(owned), ())
    apart = _first_of_each(one for one in owned if all(one is not other for other in linked))
    apart.sort(key=lambda one: any(one.tool.name == other.tool.name for other in linked))
    chosen = [_example(one) for one in apart[: _MOST - bool(linked)]]
    return (*chosen, *([_joined(*linked)] if linked else []))


def examples_as_text(tools: Sequence[Tool]) -> str:
    """Return worked examples for the available tools in `react`'s format."""
    written = ""
    for example in examples_for(tools):
        steps = [
            f"Thought: {step.thought}\nAction: {step.tool.name}\nAction Input: {input_text(step.tool_input)}\n"
            f"Observation: {step.observation}\n"
            for step in example.steps
        ]
        ending = f"Thought: {example.thought}\nFinal Answer: {example.answer}\n\n"
        written += f"Question: {example.question}\n{''.join(steps)}{ending}"
    return written


def input_text(tool_input: ToolInput) -> str:
    """Return a tool's input as a model writes it: a text, or values as JSON."""
    return tool_input if isinstance(tool_input, str) else json.dumps(tool_input, ensure_ascii=False)


def _examples_of(tool: Tool) -> Iterable[ToolExample]:
    """Return a tool's examples; an agent without any has those of its own tools."""
    if tool.examples or not is_member(tool) or tool.return_direct:
        return tool.examples
    return [_asked(example) for own in tool.something.run_spec().tools for example in own.examples]


def _asked(example: ToolExample) -> ToolExample:
    """Return an example of an agent's own tool as one of the agent, which is asked the whole question."""
    call = ExampleCall(f"I need to ask: {example.question}", example.question, example.answer)
    return ToolExample(example.question, (call,), example.answer, follow_up=example.follow_up)


def _links(owned: Sequence[_Owned]) -> Iterator[tuple[_Owned, _Owned]]:
    """Yield the pairs of which the second goes on from the answer of the first."""
    for before, after in permutations(owned, 2):
        if after.example.follow_up and before.tool.name != after.tool.name:
            begins = input_text(after.example.calls[0].tool_input)
            if re.search(rf"(?<!\w){re.escape(before.example.answer)}(?!\w)", begins):
                yield before, after


def _first_of_each(owned: Iterable[_Owned]) -> list[_Owned]:
    found: dict[str, _Owned] = {}
    for one in owned:
        found.setdefault(one.tool.name, one)
    return list(found.values())


def _steps(one: _Owned) -> tuple[ExampleStep, ...]:
    return tuple(ExampleStep(one.tool, call.thought, call.tool_input, call.observation) for call in one.example.calls)


def _example(one: _Owned) -> Example:
    return Example(one.example.question, _steps(one), one.example.thought or _KNOWN, one.example.answer)


def _joined(before: _Owned, after: _Owned) -> Example:
    last = after.example
    question = f"{before.example.question} {last.follow_up}"
    first, *others = _steps(after)
    first = first._replace(thought=f"{before.example.thought} {first.thought}".strip())
    return Example(question, (*_steps(before), first, *others), last.thought or _KNOWN, last.answer)
