"""The earlier conversation as plain text, for models that are sent no tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...core.values import Message

_HALF = 1.5  # characters for each token of the window, of which each stands for some three
_LEFT_OUT = "(Earlier turns are left out.)\n"


def flatten_tool_calls(history: Sequence[Message]) -> tuple[Message, ...]:
    """Return `history` without tool calls and tool messages.

    They become labeled text in the assistant's turn that they belong to, so tool output never has the user's authority.
    """
    turns: list[Message] = []
    for message in history:
        turn = message if message.role in ("user", "system") else Message("assistant", _told(message))
        if turns and turn.role == "assistant" == turns[-1].role:
            joined = "\n".join(filter(None, [turns[-1].content.strip(), turn.content.strip()]))
            turns[-1] = Message("assistant", joined)
        else:
            turns.append(turn)
    return tuple(turns)


def history_lines(history: Sequence[Message], window: int | None = None) -> str:
    """Return the earlier conversation, one line per turn. It takes at most half of the model's `window` (in tokens):
    the oldest turns are left out, each with its answer."""
    turns = flatten_tool_calls(history)
    lines = [f"{'Human' if one.role == 'user' else 'AI'}: {one.content}\n" for one in turns]
    size, start = sum(map(len, lines)), 0
    while (
        window is not None and start < len(turns) and (size > window * _HALF or (start and turns[start].role != "user"))
    ):
        size -= len(lines[start])
        start += 1
    return (_LEFT_OUT if start else "") + "".join(lines[start:])


def _told(message: Message) -> str:
    if message.role == "tool":
        return f"({message.tool or 'a tool'} returned {json.dumps(message.content, ensure_ascii=False)})"
    calls = (f"(called {call.tool} with {json.dumps(call.tool_input, ensure_ascii=False)})" for call in message.calls)
    return "\n".join(filter(None, [message.content, *calls]))
