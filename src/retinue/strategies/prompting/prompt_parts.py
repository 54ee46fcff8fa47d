"""The parts of prompts: a strategy's wordings, its tools, the earlier conversation, and worked examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
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
    from importlib.resources import files  # imported late, for `import` to be quick

    return files("retinue.strategies").joinpath(f"{strategy}.txt").read_text(encoding="utf-8")


@cache
def read_prompt_parts(strategy: str) -> Mapping[str, Template]:
    """Return the parts of the strategy's text file, by the name after `===`."""
    parts = (part.partition("\n") for part in read_prompt_text(strategy).split("=== ")[1:])
    return {name: Template(body) for name, _, body in parts}


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def describe_tools(tools: Sequence[Tool], input_name: str = "Action Input") -> str:
    """Return one line per tool: its name, its description, and its input if that is not plain text."""
    return "\n".join(f"{tool.name}: {tool.description}{_describe_input(tool, input_name)}" for tool in tools)


def _describe_input(tool: Tool, input_name: str) -> str:
    if tool.signature.text_argument is not None:
        return ""
    parameters = tool.signature.parameters
    fields = [_describe_field(name, schema, parameters) for name, schema in parameters.get("properties", {}).items()]
    return f" ({input_name} is JSON: {{{', '.join(fields)}}})"


def _describe_field(name: str, schema: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    kind = " or ".join(map(json.dumps, schema["enum"])) if "enum" in schema else schema.get("type", "value")
    notes = [schema["description"]] if schema.get("description") else []
    if name not in parameters.get("required", ()):
        notes.append("optional")
    return f'"{name}": {kind}' + (f" ({', '.join(notes)})" if notes else "")


# ── the earlier conversation ──────────────────────────────────────────────────────────────────────

_HALF = 1.5  # characters for each token of the window, of which each stands for some three
_LEFT_OUT = "(Earlier turns are left out.)\n"


def flatten_tool_calls(history: Sequence[Message]) -> tuple[Message, ...]:
    """Return `history` without tool calls and tool messages.

    They become labeled text in the assistant's turn that they belong to, so tool output never has the user's authority.
    """
    turns: list[Message] = []
    for message in history:
        turn = message if message.role in ("user", "system") else Message("assistant", _flatten_message(message))
        if turns and turn.role == "assistant" == turns[-1].role:
            joined = "\n".join(filter(None, [turns[-1].content.strip(), turn.content.strip()]))
            turns[-1] = Message("assistant", joined)
        else:
            turns.append(turn)
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


def _flatten_message(message: Message) -> str:
    if message.role == "tool":
        return f"({message.tool or 'a tool'} returned {json.dumps(message.content, ensure_ascii=False)})"
    calls = (f"(called {call.tool} with {json.dumps(call.tool_input, ensure_ascii=False)})" for call in message.calls)
    return "\n".join(filter(None, [message.content, *calls]))


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


class _Owned(NamedTuple):
    """An example of a tool."""

    tool: Tool
    example: ToolExample


def choose_examples(tools: Sequence[Tool]) -> tuple[Example, ...]:
    """Return at most two worked examples that show the use of as many tools as possible.

    Where an example of one tool goes on from the answer of another one's, the two are one example of both tools. It
    comes last, after the first example of a tool that it leaves out or, if there is none, another one of its own tools.
    """
    owned = [_Owned(tool, example) for tool in tools for example in _list_examples(tool)]
    linked = next(_find_links(owned), ())
    apart = _keep_first_of_each(one for one in owned if all(one is not other for other in linked))
    apart.sort(key=lambda one: any(one.tool.name == other.tool.name for other in linked))
    chosen = [_make_example(one) for one in apart[: _MOST - bool(linked)]]
    return (*chosen, *([_join_examples(*linked)] if linked else []))


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
    """Return a tool's examples; an agent without any has those of its own tools."""
    if tool.examples or not is_member(tool) or tool.return_direct:
        return tool.examples
    return [_ask_member(example) for own in tool.something.run_spec().tools for example in own.examples]


def _ask_member(example: ToolExample) -> ToolExample:
    """Return an example of an agent's own tool as one of the agent, which is asked the whole question."""
    call = ExampleCall(f"I need to ask: {example.question}", example.question, example.answer)
    return ToolExample(example.question, (call,), example.answer, follow_up=example.follow_up)


def _find_links(owned: Sequence[_Owned]) -> Iterator[tuple[_Owned, _Owned]]:
    """Yield the pairs of which the second goes on from the answer of the first."""
    for before, after in permutations(owned, 2):
        if after.example.follow_up and before.tool.name != after.tool.name:
            begins = as_text(after.example.calls[0].tool_input)
            if re.search(rf"(?<!\w){re.escape(before.example.answer)}(?!\w)", begins):
                yield before, after


def _keep_first_of_each(owned: Iterable[_Owned]) -> list[_Owned]:
    found: dict[str, _Owned] = {}
    for one in owned:
        found.setdefault(one.tool.name, one)
    return list(found.values())


def _list_example_steps(one: _Owned) -> tuple[ExampleStep, ...]:
    return tuple(ExampleStep(one.tool, call.thought, call.tool_input, call.observation) for call in one.example.calls)


def _make_example(one: _Owned) -> Example:
    return Example(one.example.question, _list_example_steps(one), one.example.thought or _KNOWN, one.example.answer)


def _join_examples(before: _Owned, after: _Owned) -> Example:
    last = after.example
    question = f"{before.example.question} {last.follow_up}"
    first, *others = _list_example_steps(after)
    first = first._replace(thought=f"{before.example.thought} {first.thought}".strip())
    return Example(question, (*_list_example_steps(before), first, *others), last.thought or _KNOWN, last.answer)
