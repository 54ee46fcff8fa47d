"""JSON from a model that is held to it, where its engine can; read tolerantly, where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.completion import ask_once
from ..core.grammar import Constraint
from ..core.protocols import Model
from ..strategies.parsing.lenient_json import Truncated, find_values


async def ask_for_record(model: Model, prompt: str, form: Constraint, max_tokens: int) -> list[Any]:
    """The whole values in the model's reply to `prompt`, of one that was cut off those within it.

    Raises `ModelError`.
    """
    reply = await ask_once(model, prompt, max_tokens=max_tokens, constraint=form)
    return [one.value for one in find_values(reply.text) if not isinstance(one.value, Truncated)]


def record(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these."""
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | needed


def line(value: Any) -> str:
    """A text as it is kept: on one line, and such as every file and every engine can take."""
    return " ".join(str(value).encode(errors="replace").decode().split())


def text(most: int) -> dict[str, Any]:
    """The schema of a text of so many characters at most."""
    return {"type": "string", "minLength": 1, "maxLength": most}
