"""What a vendor's wire format is to the engine: how a request is written, and how what comes back is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.tool import Tool
from ..core.values import AgentAction, Finish, Message, ToolInput, Usage


@dataclass(frozen=True, slots=True)
class Terms:
    """What a request says beside the conversation. `context`: the window to ask for, where one can. `max_tokens`:
    `None` is as many as the engine and the model's window allow."""

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
    """A conversation as JSON, so far; it is only ever appended to.

    `system`: what stands outside of the messages. `open`: the last turn can still be added to.
    """

    messages: bytes = b""
    system: str = ""
    open: bool = False


@dataclass(slots=True)
class PartialCall:
    """A tool call as far as it has arrived: its `arguments` as text, or `given` as values."""

    name: str = ""
    id: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its arguments can be read."""
        return self.given is not None or isinstance(read_arguments(self.arguments), dict)

    def action(self, number: int) -> AgentAction:
        """What it asks for. Where the engine names no id, its `number` in the reply makes one."""
        given = read_arguments(self.arguments) if self.given is None else self.given
        return AgentAction(self.name, given, id=self.id or f"call_{number}")


@dataclass(slots=True)
class PartialReply:
    """A reply as far as it has arrived; `Wire.read` adds to it what one body or event says.

    `said`: text that nobody has taken yet. `finish`: empty until the engine says why it ended. `counted`:
    its tokens are final. `failed`: what went wrong, where the engine says so at its reply's end.
    """

    said: str = ""
    finish: Finish | Literal[""] = ""
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    counted: bool = False
    failed: str = ""
    calls: dict[str, PartialCall] = field(default_factory=dict)

    def call(self, key: Any) -> PartialCall:
        """The call that the engine knows as `key`."""
        return self.calls.setdefault(str(key), PartialCall())

    def actions(self) -> tuple[AgentAction, ...]:
        """Its calls; of a reply that was cut only those that are whole."""
        calls = [call for call in self.calls.values() if self.finish == "stop" or call.is_whole]
        return tuple(call.action(number) for number, call in enumerate(calls))


def _beside(parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return parameters | dict(options)


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire format. `dispensable`: parameters that are left out where a server refuses them.

    `with_options`: where the user's own options go. `sampled`: where one request's options go, which have OpenAI's
    names; those that the vendor does not know are left out.
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
    """`kept` with `new` messages at its end."""
    texts = [to_json(message) for message in new]
    return Encoded(b", ".join([kept.messages, *texts] if kept.messages else texts), kept.system)


def with_messages(head: bytes, encoded: Encoded) -> bytes:
    """The parameters and, last, the messages."""
    return b'%b, "messages": [%b]}' % (head, encoded.messages)


def functions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as OpenAI describes them, and others after it."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.signature.parameters},
        }
        for tool in tools
    ]


def function_calls(calls: Sequence[AgentAction]) -> list[dict[str, Any]]:
    """The calls of an assistant's message as OpenAI writes them."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(input_object(call.tool_input), ensure_ascii=False)},
        }
        for call in calls
    ]


def input_object(given: ToolInput) -> dict[str, Any]:
    """A call's input as an object, which is all that engines take back."""
    return given if isinstance(given, dict) else {"input": given}


def read_arguments(text: str) -> ToolInput:
    """A call's arguments: values if they are a JSON object, else the text as it is."""
    if not text.strip():
        return {}
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return given if isinstance(given, dict) else text


def to_json(value: Any) -> bytes:
    """`value` as JSON; what is no Unicode becomes a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def json_at(body: Any, *path: str) -> Any:
    """What lies at `path` in JSON of which nothing is certain; `None` if nothing does."""
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def token_count(value: Any) -> int:
    """A number of tokens, 0 if it is none."""
    return value if isinstance(value, int) else 0


def text_or_empty(value: Any) -> str:
    """A text, empty if it is none."""
    return value if isinstance(value, str) else ""
