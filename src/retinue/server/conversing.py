"""What was said, as a conversation for an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..schema import Message

SYSTEM = ("system", "developer")


def conversation(said: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The turns of a request that brings its whole conversation. What came of calls that no run of ours waits for
    is told with the question."""
    turns: list[dict[str, str]] = []
    calls: dict[str, str] = {}
    for one in said:
        text = text_of(one.get("content"))
        for call in one.get("tool_calls") or ():
            function = call.get("function") or {}
            calls[call["id"]] = f"{function.get('name')}({function.get('arguments')})"
        if one["role"] in ("tool", "function"):
            called = calls.get(one.get("tool_call_id") or "", one.get("name") or "a tool")
            told = f"What {called} came to: {json.dumps(text, ensure_ascii=False)}"
            turns.append({"role": "user", "content": told})
        elif one["role"] not in SYSTEM and text.strip():
            turns.append({"role": one["role"], "content": text})
    return turns


def shortened(said: Sequence[Mapping[str, Any]], truncation: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    """As much of the conversation as a `truncation_strategy` leaves (`auto`: all; what does not fit into the model's
    window is shortened by the loop)."""
    last = (truncation or {}).get("last_messages")
    return said[-last:] if last and (truncation or {}).get("type") == "last_messages" else said


def question_in(said: Sequence[Mapping[str, Any]], otherwise: str = "") -> tuple[list[Message], str]:
    """The conversation before, and the question: what the user said last, else what was said last, else `otherwise`.
    Raises `UsageError` if there is none."""
    turns = [Message("assistant" if one["role"] == "assistant" else "user", text_of(one["content"])) for one in said]
    turns = [turn for turn in turns if turn.content.strip()]
    turns = turns or [Message("user", otherwise)]
    last = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=len(turns) - 1)
    if not turns[last].content.strip():
        raise UsageError("There is no message to answer.")
    return [*turns[:last], *turns[last + 1 :]], turns[last].content


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or parts of which those are read that have one."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_part, content or ())))


def _part(part: Mapping[str, Any]) -> str:
    match part:
        case {"type": "text", "text": {"value": str() as text}} | {"type": "text", "text": str() as text}:
            return text
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return f"(an image: {url})" if not url.startswith("data:") else "(an image)"
        case {"type": str() as kind}:
            return f"({kind.replace('_', ' ')})"
    return ""
