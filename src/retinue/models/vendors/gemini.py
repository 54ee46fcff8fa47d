"""Gemini, in Google's own format. Over OpenAI's format it is a model of the engine `openai`, with rules of its own."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace

from ...core.values import Message, ProviderState
from ..vendor import Vendor
from ..wire_format import encode_function_calls
from ..wires import generate_content
from ..wires.chat import Chat

VENDOR = Vendor(
    "Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    generate_content.GENERATE_CONTENT,
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    environment="GOOGLE_GEMINI_BASE_URL",
    root="/v1beta",
    dialect="gemini",
    headers=lambda key: {"x-goog-api-key": key},
    # https://ai.google.dev/gemini-api/docs/document-processing and /audio
    reads=lambda model: frozenset(("image", "pdf", "audio")),
    listing=("/models", "models", "name"),
    takes_files=True,
    priced_as="google",
)


def sign_others(vendor: Vendor) -> Vendor:
    """Return a vendor that speaks OpenAI's format, with calls of others signed by a stand-in, as a Gemini wants it
    (https://ai.google.dev/gemini-api/docs/thought-signatures#openai)."""
    if not isinstance(vendor.chat, Chat):
        return vendor
    chat = copy(vendor.chat)
    chat.prepare = _sign
    return replace(vendor, chat=chat)


def _sign(message: Message) -> Message:
    if message.state is not None or not message.calls:
        return message
    first, *others = encode_function_calls(message.calls)
    first["extra_content"] = {"google": {"thought_signature": generate_content.UNSIGNED}}
    return replace(message, state=ProviderState("", json.dumps({"tool_calls": [first, *others]})))
