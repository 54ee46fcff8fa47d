"""What a ReAct reply may look like: the constraints made from the tools at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..grammar import Constraint, Pattern, choice, json_pattern, line, seq
from ..tooling import Tool

THOUGHT_CHARS = 240
INPUT_CHARS = 400
FINAL = "Final Answer:"


def step_shape(tools: Sequence[Tool], answer_chars: int, *, answer_apart: bool) -> Constraint:
    """A thought, then an action of one of `tools` with an input that fits it, or the answer.

    `answer_apart`: the reply ends with the words "Final Answer:", the answer itself is asked for next.
    """
    ending = seq(FINAL) if answer_apart else seq(f"{FINAL} ", line(answer_chars), "\n")
    decisions = [seq(f"Action: {tool.name}\nAction Input: ", _input(tool), "\n") for tool in tools]
    thought = line(THOUGHT_CHARS, but=":\uff1a")  # without a colon, a thought cannot look like a marker
    pattern = seq(" ", thought, "\n", choice(*decisions, ending))
    variants = [_variant(action={"const": tool.name}, action_input=_input_schema(tool)) for tool in tools]
    decision = {"anyOf": [*variants, _variant(final_answer={"type": "string"})]}
    definitions = {name: schema for tool in tools for name, schema in _definitions(tool).items()}
    schema = _variant(thought={"type": "string"}, decision=decision)
    return Constraint(pattern, schema | ({"$defs": definitions} if definitions else {}))


def answer_shape(answer_chars: int) -> Constraint:
    """Nothing but the answer, on one line."""
    return Constraint(seq(" ", line(answer_chars), "\n"), _variant(final_answer={"type": "string"}))


def _input(tool: Tool) -> Pattern:
    signature = tool.signature
    if signature.text_argument is None:
        return json_pattern(signature.parameters)
    most = signature.parameters["properties"][signature.text_argument].get("maxLength", INPUT_CHARS)
    return line(min(most, INPUT_CHARS))


def _input_schema(tool: Tool) -> Any:
    if tool.signature.text_argument is not None:
        return {"type": "string"}
    return _apart({key: value for key, value in tool.signature.parameters.items() if key != "$defs"}, tool)


def _definitions(tool: Tool) -> dict[str, Any]:
    """What the tool's schema refers to. References start at the root, so it stands there, for each tool apart."""
    defined = tool.signature.parameters.get("$defs", {})
    return {f"{tool.name}-{name}": _apart(schema, tool) for name, schema in defined.items()}


def _apart(schema: Any, tool: Tool) -> Any:
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", f"#/$defs/{tool.name}-") if key == "$ref" else _apart(value, tool)
            for key, value in schema.items()
        }
    return [_apart(inner, tool) for inner in schema] if isinstance(schema, list) else schema


def _variant(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
