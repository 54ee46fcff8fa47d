"""The parts of prompts: a strategy's wordings, its tools, the earlier conversation, and worked examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from ...core.tools.delegation import is_member
from ...core.tools.tool import ExampleCall, Tool, ToolExample
from ...core.values import Message, ToolInput
from ..parsing.lenient_json import as_text

FINAL = "Final Answer:"  # begins the answer of ReAct


@cache
def read_prompt_text(strategy: str) -> str:
    """Return the strategy's text file."""
    return Path(__file__).parents[1].joinpath(f"{strategy}.txt").read_text(encoding="utf-8")


@cache
def read_prompt_parts(strategy: str) -> Mapping[str, Template]:
    """Return the parts of the strategy's text file, by the name after `===`."""
    parts = (part.partition("\n") for part in read_prompt_text(strategy).split("=== ")[1:])
    return {name: Template(body) for name, _, body in parts}


def fill_prompt_part(strategy: str, part: str, **values: str) -> str:
    """Return a part of the strategy's text file with `values` in all its places, without line breaks at its end."""
    return read_prompt_parts(strategy)[part].substitute(values).rstrip("\n")


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def describe_tools(tools: Sequence[Tool], input_name: str = "Action Input") -> str:
    """Return one line per tool: its name, its description, and its input if that is not plain text."""
    lines = []
    for tool in tools:
        parameters, given = tool.signature.parameters, ""
        if tool.signature.text_argument is None:
            required = parameters.get("required", ())
            fields = [
                _describe_field(name, schema, optional=name not in required)
                for name, schema in parameters.get("properties", {}).items()
            ]
            given = f" ({input_name} is JSON: {{{', '.join(fields)}}})"
        lines.append(f"{tool.name}: {tool.description}{given}")
    return "\n".join(lines)


def _describe_field(name: str, schema: Mapping[str, Any], *, optional: bool) -> str:
    notes = [schema["description"]] if schema.get("description") else []
    notes += ["optional"] if optional else []
    return f'"{name}": {describe_kind(schema)}' + (f" ({', '.join(notes)})" if notes else "")


def describe_kind(schema: Mapping[str, Any]) -> str:
    """Return the values that an argument takes: its type, or one after the other."""
    return " or ".join(map(json.dumps, schema["enum"])) if "enum" in schema else str(schema.get("type", "value"))


# ── the earlier conversation ──────────────────────────────────────────────────────────────────────

_HALF = 1.5  # characters for each token of the window, of which each stands for some three
_LEFT_OUT = "(Earlier turns are left out.)\n"


def flatten_tool_calls(history: Sequence[Message]) -> tuple[Message, ...]:
    """Return `history` without tool calls and tool messages.

    They become labeled text in the assistant's turn that they belong to, so tool output never has the user's authority.
    """
    turns: list[Message] = []
    for message in history:
        if message.role in ("user", "system"):
            turns.append(message)
            continue
        if message.role == "tool":
            said = [f"({message.tool or 'a tool'} returned {json.dumps(message.content, ensure_ascii=False)})"]
        else:
            called = [(call.tool, json.dumps(call.tool_input, ensure_ascii=False)) for call in message.calls]
            said = [message.content, *(f"(called {tool} with {given})" for tool, given in called)]
        text = "\n".join(filter(None, said))
        if turns and turns[-1].role == "assistant":
            text = "\n".join(filter(None, [turns.pop().content.strip(), text.strip()]))
        turns.append(Message("assistant", text))
    return tuple(turns)


def format_history(history: Sequence[Message], window: int | None = None) -> str:
    """Return the earlier conversation, one line per turn. It takes at most half of the model's `window` (in tokens):
    the oldest turns are left out, each with its answer."""
    turns = flatten_tool_calls(history)
    lines = [f"{'Human' if one.role == 'user' else 'AI'}: {one.content}\n" for one in turns]
    size, start = sum(map(len, lines)), 0
    while (
        window is not None and start < len(turns) and (size > window * _HALF or (start and turns[start].role != "user"))
    ):
        size -= len(lines[start])
        start += 1
    return (_LEFT_OUT if start else "") + "".join(lines[start:])


# ── worked examples ───────────────────────────────────────────────────────────────────────────────

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


_Owned = tuple[Tool, ToolExample]


def choose_examples(tools: Sequence[Tool]) -> tuple[Example, ...]:
    """Return at most two worked examples that show the use of as many tools as possible.

    Where an example of one tool goes on from the answer of another one's, the two are one example of both tools. It
    comes last, after the first example of a tool that it leaves out or, if there is none, another one of its own tools.
    """
    owned = [(tool, example) for tool in tools for example in _list_examples(tool)]
    linked = next((pair for pair in permutations(owned, 2) if _goes_on(*pair)), None)
    shown = [tool.name for tool, _ in linked or ()]
    first_of: dict[str, _Owned] = {}
    for one in owned:
        if all(one is not other for other in linked or ()):
            first_of.setdefault(one[0].name, one)
    apart = sorted(first_of.values(), key=lambda one: one[0].name in shown)
    chosen = [_make_example(*one) for one in apart[: _MOST - bool(linked)]]
    if linked:
        before, (_, follows) = linked
        begun, ended = _make_example(*before), _make_example(*linked[1])
        first, *others = ended.steps
        first = first._replace(thought=f"{before[1].thought} {first.thought}".strip())
        steps = (*begun.steps, first, *others)
        chosen.append(ended._replace(question=f"{begun.question} {follows.follow_up}", steps=steps))
    return tuple(chosen)


def format_examples(tools: Sequence[Tool]) -> str:
    """Return worked examples for the available tools in `react`'s format."""
    written = ""
    for example in choose_examples(tools):
        steps = [
            f"Thought: {step.thought}\nAction: {step.tool.name}\nAction Input: {as_text(step.tool_input)}\n"
            f"Observation: {step.observation}\n"
            for step in example.steps
        ]
        ending = f"Thought: {example.thought}\nFinal Answer: {example.answer}\n\n"
        written += f"Question: {example.question}\n{''.join(steps)}{ending}"
    return written


def _list_examples(tool: Tool) -> Iterable[ToolExample]:
    """Return a tool's examples; an agent without any has those of its own tools, and is asked the whole question."""
    if tool.examples or not is_member(tool) or tool.return_direct:
        return tool.examples
    return [
        ToolExample(
            example.question,
            (ExampleCall(f"I need to ask: {example.question}", example.question, example.answer),),
            example.answer,
            follow_up=example.follow_up,
        )
        for own in tool.something.run_spec().tools
        for example in own.examples
    ]


def _goes_on(before: _Owned, after: _Owned) -> bool:
    """Return whether an example goes on from the answer of another tool's."""
    if not after[1].follow_up or before[0].name == after[0].name:
        return False
    begins = as_text(after[1].calls[0].tool_input)
    return re.search(rf"(?<!\w){re.escape(before[1].answer)}(?!\w)", begins) is not None


def _make_example(tool: Tool, example: ToolExample) -> Example:
    steps = tuple(ExampleStep(tool, call.thought, call.tool_input, call.observation) for call in example.calls)
    return Example(example.question, steps, example.thought or _KNOWN, example.answer)
