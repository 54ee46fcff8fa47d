"""Mistral: thoughts are parts of the content, ids have nine characters, and roles have an order.

The rules are those of https://github.com/mistralai/mistral-common and https://docs.mistral.ai/capabilities/reasoning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.values import Message
from ..vendor import Vendor
from ..wire_format import Encoded, PartialReply, Terms, append_messages, find_json_at, find_objects_at, read_text
from ..wires import chat

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_BETWEEN = {"role": "assistant", "content": "Noted."}  # no user may follow a tool


class MistralChat(chat.Chat):
    """OpenAI's chat as Mistral speaks it."""

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        """Mistral counts tokens at the end of each stream, and refuses to be asked for it."""
        parameters = super().build_parameters(terms)
        parameters.pop("stream_options", None)
        return parameters

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return parameters | {"random_seed" if name == "seed" else name: value for name, value in options.items()}

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        turns, ids = self.encode_turns(kept, new)
        last, ordered = kept.last, list[dict[str, Any]]()
        for turn in turns:
            for call in turn.get("tool_calls", ()):
                call["id"] = _shorten_id(call["id"])
            if "tool_call_id" in turn:
                turn["tool_call_id"] = _shorten_id(turn["tool_call_id"])
            if last == "tool" and turn["role"] == "user":
                ordered.append(_BETWEEN)
            last = turn["role"]
            ordered.append(turn)
        return replace(append_messages(kept, ordered), ids=ids, last=last)

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        """Return the request; an assistant's turn at its end is the beginning of the reply."""
        if encoded.last == "assistant":
            encoded = replace(encoded, messages=encoded.messages[:-1] + b', "prefix": true}')
        return super().write_body(head, encoded)

    def read_choice(self, choice: Mapping[str, Any], arriving: PartialReply) -> None:
        """Add a choice to the reply, and the parts of its content to the turn; pieces of a part are joined."""
        super().read_choice(choice, arriving)
        content = find_json_at(choice.get("delta") or choice.get("message"), "content")
        turn = arriving.turn = arriving.turn or {}
        parts = turn.setdefault("content", [])
        for part in find_objects_at(
            [{"type": "text", "text": content}] if content and isinstance(content, str) else content
        ):
            kind = part.get("type")
            last = parts[-1] if parts and kind in ("thinking", "text") else {}
            if last.get("type") != kind:
                parts.append(dict(part))
            elif kind == "text":
                last["text"] = read_text(last) + read_text(part)
            else:
                whole = read_text(last.get("thinking")) + read_text(part.get("thinking"))
                last |= part | {"thinking": [{"type": "text", "text": whole}]}

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the turn; without thoughts its content is the message's own."""
        turn = arriving.turn or {}
        if not any(part.get("type") == "thinking" for part in turn.get("content", ())):
            turn.pop("content", None)
        return super().keep_turn(arriving)


def _shorten_id(id: str) -> str:  # noqa: A002
    """Return the id if Mistral accepts it, and otherwise one that is derived from it."""
    return id if _ID.fullmatch(id) else hashlib.sha256(id.encode()).hexdigest()[:9]


VENDOR = Vendor("Mistral", "https://api.mistral.ai/v1", MistralChat(), keys=("MISTRAL_API_KEY",), priced_as="mistral")
