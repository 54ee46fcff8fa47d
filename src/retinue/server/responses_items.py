"""What the input of a response may be made of: the items of the Responses API that mean something here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from .wire import Id, Wire, by_type, either


class Kept(Wire):
    """What is kept as it is sent, with whatever else is in it."""

    model_config = ConfigDict(extra="allow")


class TextPart(Kept):
    """A text, said by either side."""

    type: Literal["input_text", "output_text"]
    text: str


class RefusalPart(Kept):
    """The words of a refusal."""

    type: Literal["refusal"]
    refusal: str


class OtherPart(Kept):
    """What is no text: models here are told of it, not given it."""

    type: Literal["input_image", "input_file", "input_audio"]


Part = Annotated[
    Annotated[TextPart, Tag("<input_text>")]
    | Annotated[TextPart, Tag("<output_text>")]
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[OtherPart, Tag("<input_image>")]
    | Annotated[OtherPart, Tag("<input_file>")]
    | Annotated[OtherPart, Tag("<input_audio>")],
    by_type("input_text", "output_text", "refusal", "input_image", "input_file", "input_audio"),
]
Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Part], Tag("<array>")],
    either("one of a string or array of objects", string=str, array=list),
]


class MessageItem(Wire):
    """What somebody said."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCallItem(Wire):
    """A call of a function of the client's, with its arguments as JSON text."""

    type: Literal["function_call"]
    call_id: Id
    name: Annotated[str, Field(min_length=1, max_length=256)]
    arguments: str


class FunctionCallOutputItem(Wire):
    """What came of it."""

    type: Literal["function_call_output"]
    call_id: Id
    output: Content


class ReferenceItem(Wire):
    """An item that the server has."""

    type: Literal["item_reference"] | None = "item_reference"
    id: Id


class ApprovalItem(Wire):
    """A person's word on a call of a tool of the server's."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id
    approve: bool
    reason: str | None = None


class EchoedItem(Kept):
    """What a response said of the server's own doings, sent back."""

    type: Literal["reasoning", "mcp_call", "mcp_approval_request", "mcp_list_tools", "compaction"]


class HostedItem(Kept):
    """The same, of hosted tools."""

    type: Literal["file_search_call", "code_interpreter_call"]


_NAMES = (
    "message",
    "function_call",
    "function_call_output",
    "item_reference",
    "mcp_approval_response",
    "reasoning",
    "mcp_call",
    "mcp_approval_request",
    "mcp_list_tools",
    "compaction",
    "file_search_call",
    "code_interpreter_call",
)


def _kind(value: Any) -> str | None:
    """The tag of an item: by its `type`, without which it is a message, or refers to one by its id alone."""
    if isinstance(value, Wire):
        return f"<{getattr(value, 'type', None)}>"
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind is None and "role" in value:
        kind = "message"
    elif kind is None and "id" in value:
        kind = "item_reference"
    return f"<{kind}>" if isinstance(kind, str) and kind in _NAMES else None


Item = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[FunctionCallItem, Tag("<function_call>")]
    | Annotated[FunctionCallOutputItem, Tag("<function_call_output>")]
    | Annotated[ReferenceItem, Tag("<item_reference>")]
    | Annotated[ApprovalItem, Tag("<mcp_approval_response>")]
    | Annotated[EchoedItem, Tag("<reasoning>")]
    | Annotated[EchoedItem, Tag("<mcp_call>")]
    | Annotated[EchoedItem, Tag("<mcp_approval_request>")]
    | Annotated[EchoedItem, Tag("<mcp_list_tools>")]
    | Annotated[EchoedItem, Tag("<compaction>")]
    | Annotated[HostedItem, Tag("<file_search_call>")]
    | Annotated[HostedItem, Tag("<code_interpreter_call>")],
    Discriminator(_kind, "by_type", ", ".join(f"'{name}'" for name in _NAMES)),
]
Input = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Item], Tag("<array>")],
    either("one of a string or array of objects", string=str, array=list),
]
