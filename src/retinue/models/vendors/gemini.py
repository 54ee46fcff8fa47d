"""Gemini, in Google's own format. Over OpenAI's format it is a model of the engine `openai`, with rules of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...core.values import Message, ProviderState
from ..engine import Format
from ..wire_format import Encoded, function_calls
from ..wires import generate_content
from .vendor import Vendor

FORMAT = Format("/v1beta", generate_content.GENERATE_CONTENT, dialect="gemini", headers=generate_content.headers)
VENDOR = Vendor(
    "Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    FORMAT,
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "GOOGLE_GEMINI_BASE_URL",
)


def sign_others(form: Format) -> Format:
    """Return OpenAI's format as a Gemini wants it: calls of others have a stand-in for its signature
    (https://ai.google.dev/gemini-api/docs/thought-signatures#openai)."""

    def encode(kept: Encoded, new: Sequence[Message]) -> Encoded:
        return form.chat.encode(kept, [_signed(message) for message in new])

    return replace(form, chat=replace(form.chat, encode=encode))


def _signed(message: Message) -> Message:
    if message.state is not None or not message.calls:
        return message
    first, *others = function_calls(message.calls)
    first["extra_content"] = {"google": {"thought_signature": generate_content.UNSIGNED}}
    return replace(message, state=ProviderState("", json.dumps({"tool_calls": [first, *others]})))
