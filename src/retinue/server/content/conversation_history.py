"""Converts a request's messages to a conversation for an agent.

A stored turn is JSON: `role` (`user`, `assistant` or `tool`) and `content` (text). A user's or a tool's turn may have
`images`, which are files of any kind (`id`, `media_type`, `detail`, `name`). An assistant turn with calls has
`tool_calls` (`id`, `name`, `arguments` as JSON text); a tool turn has `tool_call_id` and `name`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.values import AgentAction, File, Message, Role
from ...errors import UsageError
from ...strategies.prompting.injection_guard import neutralize
from ..agents.overrides import inner_name
from .file_parts import is_shown, shown_in
from .tool_history import NO_ANSWER

SYSTEM = ("system", "developer")
GO_ON = "Go on from where you stopped."
LOOK = "(Look at the file.)"
_OWN = re.compile(r"call_\d+_\d+")  # the form of a run's own call ids
_STRANGE = re.compile(r"[^A-Za-z0-9_]")


def conversation(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns of a request that brings its whole conversation. Tool outputs are placed right after their
    calls, whatever their order; a call without output is marked as unanswered."""
    answers = {
        one.get("tool_call_id"): (text_of(one.get("content")), one.get("images") or ())
        for one in said
        if one["role"] == "tool"
    }
    turns: list[dict[str, Any]] = []
    taken: set[str] = set()
    for one in said:
        if one["role"] in SYSTEM or one["role"] == "tool":
            continue
        text = text_of(one.get("content"))
        calls = [_call(call, number, taken) for number, call in enumerate(one.get("tool_calls") or ())]
        if calls:
            turns.append({"role": "assistant", "content": text, "tool_calls": [call for _, call in calls]})
            turns += [_answer(call, *answers.get(given, (NO_ANSWER, ()))) for given, call in calls]
        elif images := one.get("images"):
            turns.append({"role": one["role"], "content": text, "images": images})
        elif text.strip():
            turns.append({"role": one["role"], "content": text})
    return turns


def _call(call: Mapping[str, Any], number: int, taken: set[str]) -> tuple[str, dict[str, str]]:
    """Return a call's original id, and the call under an id that is unique in the conversation."""
    given, function = call["id"], call.get("function") or {}
    id_ = f"past_{given}" if _OWN.fullmatch(given) or not given else given
    while id_ in taken:
        id_ = f"{id_}_{number}"
    taken.add(id_)
    name = _STRANGE.sub("_", function.get("name") or "")[:64] or "a_tool"
    return given, {"id": id_, "name": inner_name(name), "arguments": function.get("arguments") or "{}"}


def _answer(call: Mapping[str, str], text: str, files: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    shown = {"images": list(files)} if files else {}
    return {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": text, **shown}


def truncate_history(
    said: Sequence[Mapping[str, Any]], truncation: Mapping[str, Any] | None
) -> Sequence[Mapping[str, Any]]:
    """Return the part of the conversation that a `truncation_strategy` keeps. `auto` keeps everything; the loop
    shortens what exceeds the context window. Calls and outputs stay with the message they led to."""
    last = (truncation or {}).get("last_messages")
    if not last or (truncation or {}).get("type") != "last_messages":
        return said
    messages = [at for at, one in enumerate(said) if not (one["role"] == "tool" or one.get("tool_calls"))]
    return said if len(messages) <= last else said[messages[-last - 1] + 1 :]


def question_in(said: Sequence[Mapping[str, Any]], otherwise: str = "") -> tuple[list[Message], Message]:
    """Split a conversation into its history and the question, the user's last message. If tools or the agent spoke
    after it, all turns are history, and the question is repeated, or asks to continue. Raises `UsageError` if there is
    nothing to answer."""
    turns = [turn for turn in map(_message, said) if turn.content.strip() or turn.calls or turn.role == "tool"]
    if not turns:
        turns = [Message("user", otherwise)]
    *before, last = turns
    if last.role == "user":
        if not last.content.strip():
            raise UsageError("There is no message to answer.")
        return before, last
    asked = next((turn.content for turn in reversed(before) if turn.role == "user"), GO_ON)
    return turns, Message("user", asked if last.role == "tool" else GO_ON)


def _message(turn: Mapping[str, Any]) -> Message:
    text = text_of(turn["content"])
    files = tuple(File(**one) for one in turn.get("images") or shown_in(turn["content"]))
    if turn["role"] == "tool":
        return Message("tool", neutralize(text), call_id=turn["tool_call_id"], tool=turn["name"], files=files)
    calls = tuple(
        AgentAction(one["name"], _input(one["arguments"]), id=one["id"]) for one in turn.get("tool_calls", ())
    )
    role: Role = "assistant" if turn["role"] == "assistant" else "user"
    return Message(role, text if text.strip() or not files else LOOK, calls, files=files)


def _input(arguments: str) -> str | dict[str, Any]:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return given if isinstance(given, dict) else arguments


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is text or parts. Images that the model is shown have none; other
    parts become a note that they cannot be shown. `message_content` checks those of the current request."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_part, content or ())))


def _part(part: Mapping[str, Any]) -> str:
    match part:
        case {"type": "text", "text": {"value": str() as text}} | {"type": "text", "text": str() as text}:
            return text
        case {"text": str() as text} | {"refusal": str() as text}:
            return text
        case {"type": str() as kind} if not is_shown(part):
            return f"({_SHOWN.get(kind, kind.replace('_', ' '))}, which cannot be shown to you)"
    return ""


_SHOWN = {
    "image_url": "an image",
    "image_file": "an image",
    "input_image": "an image",
    "input_file": "a file",
    "file": "a file",
    "input_audio": "a sound",
}
