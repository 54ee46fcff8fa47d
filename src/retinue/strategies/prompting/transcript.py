"""The conversation before, for models that are sent no tool calls: as words."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...core.values import Message


def flatten_tool_calls(history: Sequence[Message]) -> tuple[Message, ...]:
    """`history` without calls and messages of tools: they are told, labelled, in the assistant's turn that they belong
    to, so that nothing that a tool said has the user's authority."""
    turns: list[Message] = []
    for message in history:
        turn = message if message.role in ("user", "system") else Message("assistant", _told(message))
        if turns and turn.role == "assistant" == turns[-1].role:
            joined = "\n".join(filter(None, [turns[-1].content.strip(), turn.content.strip()]))
            turns[-1] = Message("assistant", joined)
        else:
            turns.append(turn)
    return tuple(turns)


def history_lines(history: Sequence[Message]) -> str:
    """The conversation before, a line for each turn."""
    return "".join(f"{'Human' if one.role == 'user' else 'AI'}: {one.content}\n" for one in flatten_tool_calls(history))


def _told(message: Message) -> str:
    if message.role == "tool":
        return f"({message.tool or 'a tool'} returned {json.dumps(message.content, ensure_ascii=False)})"
    calls = (f"(called {call.tool} with {json.dumps(call.tool_input, ensure_ascii=False)})" for call in message.calls)
    return "\n".join(filter(None, [message.content, *calls]))
