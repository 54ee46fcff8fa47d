"""Constraints on ReAct replies, built from the available tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...core.schema.patterns import Constraint, Pattern, build_json_pattern, choice, line, seq
from ...core.tools.tool import Tool
from .prompt_parts import FINAL

THOUGHT_CHARS = 240
INPUT_CHARS = 400


def build_step_constraint(tools: Sequence[Tool], answer_chars: int, *, answer_apart: bool) -> Constraint:
    """Return the constraint for a step: a thought, then an answer, or an action of one of `tools` with a valid input.

    `answer_apart`: the reply ends with the words "Final Answer:", and the answer is requested separately.
    """
    return _build_cached_step_constraint(_SameTools(tools), answer_chars, answer_apart)


class _SameTools(tuple[Tool, ...]):
    """Tools as a key: equal to the very same ones. Runs of an agent share what is made of its tools."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTools) and [id(tool) for tool in self] == [id(tool) for tool in other]


@lru_cache(maxsize=32)
def _build_cached_step_constraint(tools: _SameTools, answer_chars: int, answer_apart: bool) -> Constraint:
    ending = seq(FINAL) if answer_apart else seq(f"{FINAL} ", line(answer_chars), "\n")
    decisions = [seq(f"Action: {tool.name}\nAction Input: ", build_input_pattern(tool), "\n") for tool in tools]
    thought = line(THOUGHT_CHARS, but=":\uff1a")  # without a colon, a thought cannot look like a marker
    pattern = seq(" ", thought, "\n", choice(*decisions, ending))
    return Constraint(pattern, build_decision_schema(tools, thought={"type": "string"}))


def build_decision_schema(tools: Sequence[Tool], **before: Any) -> dict[str, Any]:
    """Return the schema of a decision as JSON, preceded by the properties `before`."""
    variants = [
        build_object_schema(action={"const": tool.name}, action_input=build_input_schema(tool)) for tool in tools
    ]
    decision = {"anyOf": [*variants, build_object_schema(final_answer={"type": "string"})]}
    return build_object_schema(**before, decision=decision) | collect_shared_definitions(tools)


@lru_cache(maxsize=32)
def answer_shape(answer_chars: int) -> Constraint:
    """Return the constraint for a bare answer on one line."""
    return Constraint(seq(" ", line(answer_chars), "\n"), build_object_schema(final_answer={"type": "string"}))


def build_input_pattern(tool: Tool) -> Pattern:
    """Return the pattern of a valid input for the tool: a line of text, or JSON."""
    signature = tool.signature
    if signature.text_argument is None:
        return build_json_pattern(signature.parameters)
    most = signature.parameters["properties"][signature.text_argument].get("maxLength", INPUT_CHARS)
    return line(min(most, INPUT_CHARS))


def build_input_schema(tool: Tool) -> Any:
    """Return the schema of a valid input for the tool: a text, or its arguments."""
    return {"type": "string"} if tool.signature.text_argument is not None else build_arguments_schema(tool)


def build_arguments_schema(tool: Tool) -> Any:
    """Return the schema of the tool's arguments by name; its definitions are in `collect_shared_definitions`."""
    return _rename_refs({key: value for key, value in tool.signature.parameters.items() if key != "$defs"}, tool)


def collect_shared_definitions(tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the definitions that the tools' schemas use, separately per tool; references start at the root."""
    found = {
        f"{tool.name}-{name}": _rename_refs(schema, tool)
        for tool in tools
        for name, schema in tool.signature.parameters.get("$defs", {}).items()
    }
    return {"$defs": found} if found else {}


def _rename_refs(schema: Any, tool: Tool) -> Any:
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", f"#/$defs/{tool.name}-") if key == "$ref" else _rename_refs(value, tool)
            for key, value in schema.items()
        }
    return [_rename_refs(inner, tool) for inner in schema] if isinstance(schema, list) else schema


def build_object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
