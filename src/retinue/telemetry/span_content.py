"""Texts of people, models and tools as the conventions write them, where they are wanted: redacted and shortened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._internal.redaction import redact
from ..core.events import Asked, Event, Finished, Observed, Replied, Started, Stopped
from ..core.values import CUT_SHORT, AgentAction, Message

MOST = 4_000  # characters of one text
_WHOLE = 32_000  # characters of an attribute
_MESSAGES = 40  # of a prompt: its first, and its last
Texts = dict[str, object]  # by attribute


class Messages(tuple[Message, ...]):
    """Messages of a prompt, which are only looked at when they are exported."""

    __slots__ = ()


class SpanTexts:
    """The texts of one run."""

    def __init__(self) -> None:
        self._started: Started | None = None
        self._prompts: dict[int, list[Message]] = {}
        self._prompt = 0

    def note(self, event: Event) -> None:
        """Take note of a question, or of a prompt's new messages."""
        match event:
            case Started():
                self._started = event
            case Asked(prompt=prompt, messages=messages):
                self._prompt = prompt
                self._prompts.setdefault(prompt, []).extend(messages)

    def list_chat_texts(self, event: Replied) -> Texts:
        """Return those of a request to the model."""
        reply = event.reply
        answer = _encode_message(Message("assistant", reply.text, calls=reply.calls))
        answer["finish_reason"] = "tool_call" if reply.calls else reply.finish
        if reply.reasoning:
            answer["parts"].insert(0, {"type": "reasoning", "content": _shorten(reply.reasoning)})
        asked = Messages(self._prompts.get(self._prompt, ()))
        return {"gen_ai.input.messages": asked, "gen_ai.output.messages": [answer]}

    def list_call_texts(self, action: AgentAction, event: Observed | None) -> Texts:
        """Return those of a call."""
        values: Texts = {"gen_ai.tool.call.arguments": action.tool_input}
        return values if event is None else values | {"gen_ai.tool.call.result": event.observation.text}

    def list_run_texts(self, event: Finished | Stopped) -> Texts:
        """Return those of the run."""
        values: Texts = {}
        if (started := self._started) is not None:
            values["gen_ai.input.messages"] = Messages((*started.history, Message("user", started.question)))
            if started.instructions:
                values["gen_ai.system_instructions"] = [_encode_text(started.instructions)]
        if event.answer:
            reason = event.reason if isinstance(event, Stopped) else None
            cut = next((finish for finish, one in CUT_SHORT.items() if one is reason), "stop")
            answer = _encode_message(Message("assistant", event.answer))
            values["gen_ai.output.messages"] = [answer | {"finish_reason": cut}]
        return values


def _encode_message(message: Message) -> dict[str, Any]:
    parts: list[Mapping[str, Any]] = []
    if message.role == "tool":
        parts.append({"type": "tool_call_response", "id": message.call_id, "response": _shorten(message.content)})
    elif message.content:
        parts.append(_encode_text(message.content))
    parts += [{"type": "blob", "modality": "image", "mime_type": one.media_type} for one in message.files]
    parts += [
        {"type": "tool_call", "id": one.id, "name": one.tool, "arguments": _shorten_values(one.tool_input)}
        for one in message.calls
    ]
    return {"role": message.role, "parts": parts}


def _encode_text(text: str) -> dict[str, str]:
    return {"type": "text", "content": _shorten(text)}


def _shorten(text: str) -> str:
    """Return a text without secrets, shortened. It is redacted first, lest a part of a secret remains."""
    text = redact(text)
    return text if len(text) <= MOST else f"{text[:MOST]} … ({len(text) - MOST:,} more characters)"


def _shorten_values(value: Any) -> Any:
    if isinstance(value, str):
        return _shorten(value)
    if isinstance(value, Mapping):
        return {_shorten(str(name)): _shorten_values(one) for name, one in value.items()}
    return [_shorten_values(one) for one in value] if isinstance(value, Sequence) else value


def write_value(value: object) -> str:
    """Return the value of an attribute as text: texts as they are, everything else as JSON; without secrets. Of a long
    prompt, it has the first and the last messages."""
    if isinstance(value, str):
        return _shorten(value)
    if isinstance(value, Messages):
        shown: Any = [_encode_message(one) for one in (value[:1] + value[1:][1 - _MESSAGES :])]
        if len(value) > _MESSAGES:
            left_out = f"({len(value) - _MESSAGES} messages are left out)"
            shown.insert(1, {"role": "system", "parts": [_encode_text(left_out)]})
    else:
        shown = _shorten_values(value)
    while len(text := json.dumps(shown, ensure_ascii=False, default=str)) > _WHOLE:
        if not isinstance(shown, list) or len(shown) < 2:
            return f"{text[:_WHOLE]} …"
        del shown[len(shown) > 2]  # the oldest but the first
    return redact(text)
