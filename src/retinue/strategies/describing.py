"""What a model is told of its tools: a line for each, and examples in terms of the ones it has."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..tooling import Tool

_LOOKUP = re.compile(r"search|retriev|look ?up|passage|encyclop|wiki", re.IGNORECASE)
_MATH = re.compile(r"calculat|arithmetic|math", re.IGNORECASE)

_LOOKUP_EXAMPLE = """\
Question: In which country was the director of the film The Piano born?
Thought: I need to find out who directed The Piano.
Action: {tool}
Action Input: The Piano film director
Observation: [The Piano] The Piano is a 1993 period drama film written and directed by Jane Campion.
Thought: The director is Jane Campion. I need to find where she was born.
Action: {tool}
Action Input: Jane Campion born
Observation: [Jane Campion] Dame Jane Campion is a New Zealand screenwriter, born in Wellington, New Zealand.
Thought: Jane Campion was born in Wellington, which is in New Zealand.
Final Answer: New Zealand

"""
_MATH_EXAMPLE = """\
Question: What is 5 raised to the 0.4 power, plus 12 percent of 80?
Thought: I need to raise 5 to the 0.4 power and add 12 percent of 80.
Action: {tool}
Action Input: 5^0.4 + 0.12 * 80
Observation: 11.503653938715878
Thought: I now know the final answer.
Final Answer: 11.503653938715878

"""


def described(tools: Sequence[Tool]) -> str:
    """A line for each tool: its name, what it is good for, and its input where that is not plain text."""
    return "\n".join(f"{tool.name}: {tool.description}{_input_note(tool)}" for tool in tools)


def examples(tools: Sequence[Tool]) -> str:
    """Worked examples for the kinds of tools at hand (looking up, calculating), each with its own name."""
    written = ""
    for kind, example in ((_LOOKUP, _LOOKUP_EXAMPLE), (_MATH, _MATH_EXAMPLE)):
        fitting = [tool.name for tool in tools if kind.search(f"{tool.name} {tool.description}") and _takes_text(tool)]
        if fitting:
            written += example.format(tool=fitting[0])
    return written


def _takes_text(tool: Tool) -> bool:
    return tool.signature.text_argument is not None


def _input_note(tool: Tool) -> str:
    if _takes_text(tool):
        return ""
    parameters = tool.signature.parameters
    fields = [_field(name, schema, parameters) for name, schema in parameters.get("properties", {}).items()]
    return f" (Action Input is JSON: {{{', '.join(fields)}}})"


def _field(name: str, schema: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    kind = " or ".join(map(json.dumps, schema["enum"])) if "enum" in schema else schema.get("type", "value")
    notes = [schema["description"]] if schema.get("description") else []
    if name not in parameters.get("required", ()):
        notes.append("optional")
    return f'"{name}": {kind}' + (f" ({', '.join(notes)})" if notes else "")
