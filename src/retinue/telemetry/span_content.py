"""Texts of people, models and tools as the conventions write them, where they are wanted: redacted and shortened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._internal.redaction import redact
from ..core.events import Asked, Event, Finished, Observed, Replied, Started, Stopped
from ..core.values import CUT_SHORT, AgentAction, Message
from . import conventions as names
from .span_record import Content

MOST = 4_000  # characters of one text
_WHOLE = 32_000  # characters of an attribute
_MESSAGES = 40  # of a prompt: its first, and its last
Part = Mapping[str, Any]


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

    def list_chat_texts(self, event: Replied) -> Content:
        """Return those of a request to the model."""
        asked, reply = self._prompts.get(self._prompt, []), event.reply
        said = Message("assistant", reply.text, calls=reply.calls)
        answer = {**_encode_message(said), "finish_reason": "tool_call" if reply.calls else reply.finish}
        if reply.reasoning:
            answer["parts"].insert(0, {"type": "reasoning", "content": _shorten(reply.reasoning)})
        return Content({names.INPUT_MESSAGES: Messages(tuple(asked)), names.OUTPUT_MESSAGES: [answer]})

    def list_call_texts(self, action: AgentAction, event: Observed | None) -> Content:
        """Return those of a call."""
        values: dict[str, object] = {names.ARGUMENTS: action.tool_input}
        return Content(values if event is None else values | {names.RESULT: event.observation.text})

    def list_run_texts(self, event: Finished | Stopped) -> Content:
        """Return those of the run."""
        values: dict[str, object] = {}
        if (started := self._started) is not None:
            asked = (*started.history, Message("user", started.question))
            values[names.INPUT_MESSAGES] = Messages(asked)
            if started.instructions:
                values[names.INSTRUCTIONS] = [_encode_text(started.instructions)]
        if event.answer:
            reason = event.reason if isinstance(event, Stopped) else None
            cut = next((finish for finish, one in CUT_SHORT.items() if one is reason), "stop")
            answer = {**_encode_message(Message("assistant", event.answer)), "finish_reason": cut}
            values[names.OUTPUT_MESSAGES] = [answer]
        return Content(values)


class Messages(tuple[Message, ...]):
    """Messages of a prompt, which are only looked at when they are exported."""

    __slots__ = ()

    def list_shown(self) -> list[Part]:
        """Return them; of a long prompt, the first and the last."""
        if len(self) <= _MESSAGES:
            return [_encode_message(one) for one in self]
        left_out = f"({len(self) - _MESSAGES} messages are left out)"
        return [_encode_message(self[0]), {"role": "system", "parts": [_encode_text(left_out)]}] + [
            _encode_message(one) for one in self[1 - _MESSAGES :]
        ]


def _encode_message(message: Message) -> dict[str, Any]:
    parts: list[Part] = []
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


def _encode_text(text: str) -> Part:
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
    """Return the value of an attribute as text: texts as they are, everything else as JSON; without secrets."""
    if isinstance(value, str):
        return _shorten(value)
    shown: Any = value.list_shown() if isinstance(value, Messages) else _shorten_values(value)
    while len(text := json.dumps(shown, ensure_ascii=False, default=str)) > _WHOLE:
        if not isinstance(shown, list) or len(shown) < 2:
            return f"{text[:_WHOLE]} …"
        del shown[len(shown) > 2]  # the oldest but the first
    return redact(text)
