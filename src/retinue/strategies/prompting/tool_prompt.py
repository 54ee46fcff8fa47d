"""The description of tools in prompts, one line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.tool import Tool


def describe_tools(tools: Sequence[Tool], input_name: str = "Action Input") -> str:
    """Return one line per tool: its name, its description, and its input if that is not plain text."""
    return "\n".join(f"{tool.name}: {tool.description}{_input_note(tool, input_name)}" for tool in tools)


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
