"""The interface of a vendor's wire format: how requests are written and replies are read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .._internal.strict_json import read_strict_json
from ..core.tool import Tool
from ..core.values import MAX_COUNT, AgentAction, Finish, Image, Message, ToolInput, Usage
from ..errors import ModelRefused, UsageError

_ONE_REQUEST = Usage(requests=1)
_MAX_CALLS = 128  # of one reply
_UNICODE = json.JSONEncoder(ensure_ascii=False)  # `json.dumps` would make one for each value


@dataclass(frozen=True, slots=True)
class Terms:
    """The parameters of a request besides the conversation.

    `context`: the window to request, where supported. `max_tokens`: `None` allows as many as the engine and the window
    do.
    """

    model: str
    max_tokens: int | None
    stop: tuple[str, ...]
    temperature: float
    stream: bool
    context: int
    tools: tuple[Tool, ...]
    tool_choice: Literal["auto", "required", "none"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A conversation encoded as JSON so far; it is append-only.

    `system`: text outside of the messages. `open`: the last turn can still be extended.
    """

    messages: bytes = b""
    system: str = ""
    open: bool = False


@dataclass(slots=True)
class PartialCall:
    """A tool call received so far, with its `arguments` as text, or `given` as values."""

    name: str = ""
    id: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its arguments can be parsed."""
        return self.given is not None or isinstance(read_arguments(self.arguments), dict)

    def action(self, number: int) -> AgentAction:
        """Return the action; if the engine assigns no id, it is derived from the call's `number` in the reply."""
        given = read_arguments(self.arguments) if self.given is None else self.given
        return AgentAction(self.name, given, id=self.id or f"call_{number}")


@dataclass(slots=True)
class PartialReply:
    """A reply received so far; `Wire.read` adds the contents of a body or event.

    `said`: text not yet passed on. `finish`: empty until the engine reports why it ended. `counted`: token counts are
    final. `failed`: the error, if the engine reports one at the end of the reply.
    """

    said: str = ""
    finish: Finish | Literal[""] = ""
    usage: Usage = _ONE_REQUEST
    counted: bool = False
    failed: str = ""
    calls: dict[str, PartialCall] = field(default_factory=dict)

    def call(self, key: Any) -> PartialCall:
        """Return the call with the engine's key `key`. Raises `ModelRefused` if there are too many."""
        if len(self.calls) >= _MAX_CALLS and str(key) not in self.calls:
            raise ModelRefused(f"the engine's reply has more than {_MAX_CALLS} tool calls")
        return self.calls.setdefault(str(key), PartialCall())

    def actions(self) -> tuple[AgentAction, ...]:
        """Return the calls; of a truncated reply, only the complete ones."""
        calls = [call for call in self.calls.values() if self.finish == "stop" or call.is_whole]
        return tuple(call.action(number) for number, call in enumerate(calls))


def _beside(parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return parameters | dict(options)


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format. `dispensable`: parameters that are omitted if a server rejects them.

    `with_options` merges the user's own options. `sampled` merges one request's options, which have OpenAI's names, and
    drops those unknown to the vendor.
    """

    path: str
    parameters: Callable[[Terms], dict[str, Any]]
    encode: Callable[[Encoded, Sequence[Message]], Encoded]
    body: Callable[[bytes, Encoded], bytes]
    read: Callable[[Mapping[str, Any], PartialReply], None]
    dispensable: frozenset[str] = frozenset()
    with_options: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = _beside
    sampled: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = _beside


# ── what several formats have in common ──────────────────────────────────────────────────────────


def append_messages(kept: Encoded, new: Sequence[Mapping[str, Any]]) -> Encoded:
    """Append the `new` messages to `kept`."""
    texts = [to_json(message) for message in new]
    return Encoded(b", ".join([kept.messages, *texts] if kept.messages else texts), kept.system)


def with_messages(head: bytes, encoded: Encoded) -> bytes:
    """Join the parameters with the messages, which come last."""
    return b'%b, "messages": [%b]}' % (head, encoded.messages)


def data_url(image: Image) -> str:
    """Return the image as a data URL. Raises `UsageError` if its bytes are not at hand."""
    return f"data:{image.media_type};base64,{base64_of(image)}"


def base64_of(image: Image) -> str:
    """Return the bytes of `image` in base64. Raises `UsageError` if they are not at hand."""
    if not image.data:
        raise UsageError(f"the bytes of the image {image.id[:12]} are not at hand: pass it again, in images=[…]")
    return base64.b64encode(image.data).decode()


def content_parts(message: Message) -> list[dict[str, Any]]:
    """Encode the content of a message with images in OpenAI's format, which others have adopted."""
    parts: list[dict[str, Any]] = []
    for image in message.images:
        told = {} if image.detail == "auto" else {"detail": image.detail}
        parts.append({"type": "image_url", "image_url": {"url": data_url(image), **told}})
    text = message.content.strip()
    return [{"type": "text", "text": text}, *parts] if text else parts


def functions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Describe the tools in OpenAI's format, which others have adopted."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.signature.parameters},
        }
        for tool in tools
    ]


def function_calls(calls: Sequence[AgentAction]) -> list[dict[str, Any]]:
    """Encode the calls of an assistant's message in OpenAI's format."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.tool, "arguments": _UNICODE.encode(input_object(call.tool_input))},
        }
        for call in calls
    ]


def input_object(given: ToolInput) -> dict[str, Any]:
    """Return a call's input as an object, the only form that engines accept."""
    return given if isinstance(given, dict) else {"input": given}


def read_arguments(text: str) -> ToolInput:
    """Parse a call's arguments: values if they are a JSON object, otherwise the text itself."""
    if not text.strip():
        return {}
    try:
        given = read_strict_json(text)
    except ValueError:
        return text
    return given if isinstance(given, dict) else text


def to_json(value: Any) -> bytes:
    """Serialize `value` as JSON; invalid Unicode becomes question marks."""
    return _UNICODE.encode(value).encode("utf-8", "replace")


def json_at(body: Any, *path: str) -> Any:
    """Return the value at `path` in untrusted JSON, or `None` if there is none."""
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def token_count(value: Any) -> int:
    """Return a token count, or 0 if it is invalid: negative, or more than any request can use."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def text_or_empty(value: Any) -> str:
    """Return a text, or an empty string if it is not one."""
    return value if isinstance(value, str) else ""
