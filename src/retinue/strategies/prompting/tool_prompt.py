"""The description of tools in prompts: one line each, and examples with the available tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ...core.delegation import is_member
from ...core.tool import Tool

Kind = Literal["look up", "calculate"]
_KINDS: Mapping[Kind, re.Pattern[str]] = {
    "look up": re.compile(r"search|retriev|look(?:s|ing)? ?up|passage|encyclop|wiki", re.IGNORECASE),
    "calculate": re.compile(r"calculat|arithmetic|math", re.IGNORECASE),
}


class ExampleStep(NamedTuple):
    """A step of an example: the kind of tool it uses, a thought, the tool's input, and the observation.

    An agent is asked a whole question, because it is told nothing else: `asked` and `answered` are for it.
    """

    kind: Kind
    thought: str
    tool_input: str
    observation: str
    asked: str = ""
    answered: str = ""

    def by(self, tool: Tool) -> ExampleStep:
        """Return the step as it is with `tool`."""
        if not (self.asked and is_member(tool)):
            return self
        return self._replace(tool_input=self.asked, observation=self.answered)


class Example(NamedTuple):
    """A worked example."""

    question: str
    steps: tuple[ExampleStep, ...]
    thought: str
    answer: str


_LOOKING_UP = Example(
    "In which country was the director of the film The Piano born?",
    (
        ExampleStep(
            "look up",
            "I need to find out who directed The Piano.",
            "The Piano film director",
            "[The Piano] The Piano is a 1993 period drama film written and directed by Jane Campion.",
            "Who directed the film The Piano?",
            "Jane Campion",
        ),
        ExampleStep(
            "look up",
            "The director is Jane Campion. I need to find where she was born.",
            "Jane Campion born",
            "[Jane Campion] Dame Jane Campion is a New Zealand screenwriter, born in Wellington, New Zealand.",
            "Where was Jane Campion born?",
            "Wellington, New Zealand",
        ),
    ),
    "Jane Campion was born in Wellington, which is in New Zealand.",
    "New Zealand",
)
_CALCULATING = Example(
    "What is 5 raised to the 0.4 power, plus 12 percent of 80?",
    (
        ExampleStep(
            "calculate",
            "I need to raise 5 to the 0.4 power and add 12 percent of 80.",
            "5^0.4 + 0.12 * 80",
            "11.503653938715878",
            "What is 5 raised to the 0.4 power, plus 12 percent of 80?",
            "11.503653938715878",
        ),
    ),
    "I now know the final answer.",
    "11.503653938715878",
)
_BOTH = Example(
    "How long is the film The Piano? What is its length raised to the 0.4 power?",
    (
        ExampleStep(
            "look up",
            "I need to find out how long The Piano is.",
            "The Piano film length",
            "[The Piano] The Piano is a 1993 period drama film. It runs for 117 minutes.",
            "How long is the film The Piano?",
            "117 minutes",
        ),
        ExampleStep(
            "calculate",
            "The Piano is 117 minutes long. I need to raise 117 to the 0.4 power.",
            "117^0.4",
            "6.718531298781435",
            "What is 117 raised to the 0.4 power?",
            "6.718531298781435",
        ),
    ),
    "I now know the final answer.",
    "6.718531298781435",
)


def describe_tools(tools: Sequence[Tool], input_name: str = "Action Input") -> str:
    """Return one line per tool: its name, its description, and its input if that is not plain text."""
    return "\n".join(f"{tool.name}: {tool.description}{_input_note(tool, input_name)}" for tool in tools)


def examples(tools: Sequence[Tool]) -> str:
    """Return worked examples for the available tools in `react`'s format."""
    written = ""
    for example, using in examples_for(tools):
        steps = [
            f"Thought: {step.thought}\nAction: {using[step.kind].name}\nAction Input: {step.tool_input}\n"
            f"Observation: {step.observation}\n"
            for step in example.steps
        ]
        ending = f"Thought: {example.thought}\nFinal Answer: {example.answer}\n\n"
        written += f"Question: {example.question}\n{''.join(steps)}{ending}"
    return written


def examples_for(tools: Sequence[Tool]) -> Iterator[tuple[Example, Mapping[Kind, Tool]]]:
    """Yield examples for the available kinds of tools (lookup, calculation), each with the first tool of its kind."""
    using: dict[Kind, Tool] = {}
    for kind, words in _KINDS.items():
        for tool in reversed(tools):
            if words.search(f"{tool.name} {tool.description}") and _takes_text(tool):
                using[kind] = tool
    for example in (_LOOKING_UP, _BOTH if len(using) == len(_KINDS) else _CALCULATING):
        if all(step.kind in using for step in example.steps):
            yield example._replace(steps=tuple(step.by(using[step.kind]) for step in example.steps)), using


def _takes_text(tool: Tool) -> bool:
    return tool.signature.text_argument is not None


def _input_note(tool: Tool, input_name: str) -> str:
    if _takes_text(tool):
        return ""
    parameters = tool.signature.parameters
    fields = [_field(name, schema, parameters) for name, schema in parameters.get("properties", {}).items()]
    return f" ({input_name} is JSON: {{{', '.join(fields)}}})"


def _field(name: str, schema: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    kind = " or ".join(map(json.dumps, schema["enum"])) if "enum" in schema else schema.get("type", "value")
    notes = [schema["description"]] if schema.get("description") else []
    if name not in parameters.get("required", ()):
        notes.append("optional")
    return f'"{name}": {kind}' + (f" ({', '.join(notes)})" if notes else "")
