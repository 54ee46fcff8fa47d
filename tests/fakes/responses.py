"""The Responses API as the tests of the SDK see it: the orders of events, and the client's tool."""

from __future__ import annotations

import json
from typing import Any

from .sdk import DEGREES, WEATHER

HELLO = "Hello, I am an agent."
TOOL: Any = {"type": "function", **WEATHER["function"]}
SAYING = [
    "response.output_item.added", "response.content_part.added", "response.output_text.delta",
    "response.output_text.done", "response.content_part.done", "response.output_item.done",
]  # fmt: skip
CALLING = [
    "response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "response.output_item.done",
]  # fmt: skip
USING = [
    "response.output_item.added", "response.mcp_call.in_progress", "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done", "response.mcp_call.completed", "response.output_item.done",
]  # fmt: skip
BEGUN = ["response.created", "response.in_progress"]


def outputs(response: Any) -> list[Any]:
    """What the client's tool says to the calls of a response."""
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call.call_id, "output": DEGREES[place(call)]} for call in calls]


def place(call: Any) -> str:
    """Where a call of `get_weather` asks for."""
    return str(json.loads(call.arguments)["location"])
