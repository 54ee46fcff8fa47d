"""What a request for a chat completion may say. What means nothing to a server of one's own is taken and ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from ..wire.pieces import (
    FunctionTool,
    Id,
    Metadata,
    NamedApart,
    ResponseFormat,
    Share,
    Temperature,
    Text,
    ToolChoice,
    Wire,
    either,
)

Penalty = Annotated[float, Field(ge=-2, le=2)]


class Called(Wire):
    """What was called, with its arguments as JSON text."""

    name: str
    arguments: str = ""


class ToolCall(Wire):
    """A call that an assistant made."""

    id: str
    type: Literal["function", "custom"] = "function"
    function: Called | None = None
    custom: dict[str, Any] | None = None


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[dict[str, Any]], Tag("<array>")],
    either("one of a string or array of objects", string=str, array=list),
]


class ChatMessage(Wire):
    """One turn. `content` is a text or parts."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class StreamOptions(Wire):
    """What a stream says beside the answer."""

    include_usage: bool | None = None


Messages = Annotated[
    Annotated[Text, Tag("<string>")] | Annotated[Annotated[list[ChatMessage], Field(min_length=1)], Tag("<array>")],
    either("one of a string or array of objects", string=str, array=list),
]
Stops = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[Annotated[list[str], Field(max_length=4)], Tag("<array>")],
    either("one of a string or array of strings", string=str, array=list),
]


class ChatCreate(Wire):
    """The request. `thread_id` and `reasoning` are extensions: a conversation that the server keeps, and the model's
    thoughts as `reasoning_content`; `messages` may be a text (seed 003)."""

    model: str
    messages: Messages
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128), NamedApart] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    stop: Stops | None = None
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, int] | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    user: str | None = None
    thread_id: Id | None = None
    reasoning: bool | None = None


class ChatUpdate(Wire):
    """What may be changed of a stored completion."""

    metadata: Metadata | None = None
