"""Items that clients send: what was said, called, thought and decided, in the Responses API's shapes.

The one place where an input item is checked, for responses and conversations alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from ..wire.common_schemas import Id, Many, Name, Wire, by_type, either
from .item_parts import Content, Long, Output

Status = Literal["in_progress", "completed", "incomplete"]


class Item(Wire):
    """What all have in common; `id` is given to those that have none."""

    id: Annotated[Id, Field(max_length=64)] | None = None


class MessageItem(Item):
    """Something said. Its `type` may be left out."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCallItem(Item):
    """A function of the client's was called; `arguments` is JSON in a text."""

    type: Literal["function_call"]
    call_id: Id
    name: Name
    arguments: Long
    status: Status | None = None


class FunctionCallOutputItem(Item):
    """What came of it."""

    type: Literal["function_call_output"]
    call_id: Id
    output: Output
    status: Status | None = None


class CustomToolCallItem(Item):
    """A tool of the client's that takes plain text was called."""

    type: Literal["custom_tool_call"]
    call_id: Id
    name: Name
    input: Long


class CustomToolCallOutputItem(Item):
    """What came of it."""

    type: Literal["custom_tool_call_output"]
    call_id: Id
    output: Output


class SummaryText(Wire):
    """What a thought came to."""

    type: Literal["summary_text"]
    text: Long


class ReasoningText(Wire):
    """A thought."""

    type: Literal["reasoning_text"]
    text: Long


class ReasoningItem(Item):
    """What the model thought before it spoke."""

    type: Literal["reasoning"]
    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: Long | None = None
    status: Status | None = None


class ItemReference(Wire):
    """The item of this id, which the server keeps. Its `type` may be left out."""

    type: Literal["item_reference"] | None = "item_reference"
    id: Annotated[Id, Field(max_length=64)]


class McpTool(Wire):
    """A tool of an MCP server."""

    name: str
    input_schema: Any
    description: str | None = None
    annotations: Any = None


class McpListToolsItem(Item):
    """The tools of an MCP server."""

    type: Literal["mcp_list_tools"]
    server_label: str
    tools: list[McpTool]
    error: str | None = None


class McpFailure(Wire):
    """The server of a tool, or the way to it, failed."""

    type: Literal["mcp_protocol_error", "http_error"]
    code: int
    message: str


class McpToolFailure(Wire):
    """A tool failed."""

    type: Literal["mcp_tool_execution_error"]
    content: Any


McpError = Annotated[
    Annotated[McpFailure, Tag("<mcp_protocol_error>")]
    | Annotated[McpFailure, Tag("<http_error>")]
    | Annotated[McpToolFailure, Tag("<mcp_tool_execution_error>")],
    by_type("mcp_protocol_error", "mcp_tool_execution_error", "http_error"),
]


class McpCallItem(Item):
    """A tool of the server's was called."""

    type: Literal["mcp_call"]
    server_label: str
    name: Name
    arguments: Long
    approval_request_id: Id | None = None
    output: Long | None = None
    error: McpError | None = None
    status: Literal["in_progress", "completed", "incomplete", "calling", "failed"] | None = None


class McpApprovalRequestItem(Item):
    """A person is to decide on this call."""

    type: Literal["mcp_approval_request"]
    server_label: str
    name: Name
    arguments: Long


class McpApprovalResponseItem(Item):
    """What a person decided."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id
    approve: bool
    reason: Long | None = None


class SearchResult(Wire):
    """A passage that a file search found."""

    attributes: dict[str, str | float | bool] | None = None
    file_id: str | None = None
    filename: str | None = None
    score: float | None = None
    text: str | None = None


class FileSearchCallItem(Item):
    """Files were searched."""

    type: Literal["file_search_call"]
    queries: list[str]
    results: list[SearchResult] | None = None
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None


class Logs(Wire):
    """What code printed."""

    type: Literal["logs"]
    logs: str


class CodeImage(Wire):
    """An image that code made."""

    type: Literal["image"]
    url: str


CodeOutput = Annotated[
    Annotated[Logs, Tag("<logs>")] | Annotated[CodeImage, Tag("<image>")],
    by_type("logs", "image"),
]


class CodeInterpreterCallItem(Item):
    """Code was run."""

    type: Literal["code_interpreter_call"]
    code: Long | None
    container_id: str
    outputs: list[CodeOutput] | None = None
    status: Literal["in_progress", "completed", "incomplete", "interpreting", "failed"] | None = None


class CompactionItem(Item):
    """What came before, in short: only the server can read it."""

    type: Literal["compaction"]
    encrypted_content: Long


TYPES = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "item_reference",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "file_search_call",
    "code_interpreter_call",
    "compaction",
)


def kind_of(item: Mapping[str, Any]) -> Any:
    """The type of an item; where it is left out, a message has a role, and a reference only an id."""
    return item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else None)


def _tag(value: Any) -> str | None:
    if isinstance(value, Wire):
        return f"<{getattr(value, 'type', None)}>"
    if not isinstance(value, dict):
        return None
    kind = kind_of(value)
    return f"<{kind}>" if isinstance(kind, str) and kind in TYPES else None


InputItem: TypeAlias = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[FunctionCallItem, Tag("<function_call>")]
    | Annotated[FunctionCallOutputItem, Tag("<function_call_output>")]
    | Annotated[CustomToolCallItem, Tag("<custom_tool_call>")]
    | Annotated[CustomToolCallOutputItem, Tag("<custom_tool_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")]
    | Annotated[ItemReference, Tag("<item_reference>")]
    | Annotated[McpListToolsItem, Tag("<mcp_list_tools>")]
    | Annotated[McpCallItem, Tag("<mcp_call>")]
    | Annotated[McpApprovalRequestItem, Tag("<mcp_approval_request>")]
    | Annotated[McpApprovalResponseItem, Tag("<mcp_approval_response>")]
    | Annotated[FileSearchCallItem, Tag("<file_search_call>")]
    | Annotated[CodeInterpreterCallItem, Tag("<code_interpreter_call>")]
    | Annotated[CompactionItem, Tag("<compaction>")],
    Discriminator(_tag, "by_type", ", ".join(f"'{name}'" for name in TYPES)),
]
Input: TypeAlias = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[InputItem], Many, Tag("<array>")],
    either("one of a string or array of objects", string=str, array=list),
]
