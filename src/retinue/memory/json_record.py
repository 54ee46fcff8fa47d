"""JSON output of a model: constrained if its engine supports it, otherwise parsed tolerantly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.protocols import Model, ask_once
from ..core.schema.patterns import Constraint
from ..strategies.parsing.lenient_json import Truncated, find_values


async def ask_for_record(model: Model, prompt: str, form: Constraint, max_tokens: int) -> list[Any]:
    """Return the complete values in the model's reply to `prompt`; of a truncated value, the complete ones within it.

    Raises `ModelError`.
    """
    reply = await ask_once(model, prompt, max_tokens=max_tokens, constraint=form)
    return [one.value for one in find_values(reply.text) if not isinstance(one.value, Truncated)]


def record(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | needed


def clean_line(value: Any) -> str:
    """Return a text as stored: on one line, and valid for every file and engine."""
    return " ".join(str(value).encode(errors="replace").decode().split())


def build_text_schema(most: int) -> dict[str, Any]:
    """Return the schema of a text with at most `most` characters."""
    return {"type": "string", "minLength": 1, "maxLength": most}
