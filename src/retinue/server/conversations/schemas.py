"""Input item schemas of the Responses API: messages, calls, outputs, reasoning and approvals.

Input items of responses and conversations are validated only here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from ..http.common_schemas import Id, Many, Name, Wire, by_type, either
from .item_parts import Content, Long, Output

Status = Literal["in_progress", "completed", "incomplete"]


class Item(Wire):
    """The fields common to all items. Items without an `id` get one."""

    id: Annotated[Id, Field(max_length=64)] | None = None


class MessageItem(Item):
    """A message. `type` may be omitted."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCallItem(Item):
    """A call of a client's function; `arguments` is JSON text."""

    type: Literal["function_call"]
    call_id: Id
    name: Name
    namespace: Name | None = None
    arguments: Long
    status: Status | None = None


class FunctionCallOutputItem(Item):
    """The output of a function call."""

    type: Literal["function_call_output"]
    call_id: Id
    output: Output
    status: Status | None = None


class CustomToolCallItem(Item):
    """A call of a client's tool that takes plain text."""

    type: Literal["custom_tool_call"]
    call_id: Id
    name: Name
    namespace: Name | None = None
    input: Long
    status: Status | None = None


class CustomToolCallOutputItem(Item):
    """The output of a custom tool call."""

    type: Literal["custom_tool_call_output"]
    call_id: Id
    output: Output
    status: Status | None = None


class SummaryText(Wire):
    """A summary of the model's reasoning."""

    type: Literal["summary_text"]
    text: Long


class ReasoningText(Wire):
    """A text of the model's reasoning."""

    type: Literal["reasoning_text"]
    text: Long


class ReasoningItem(Item):
    """The model's reasoning before its output."""

    type: Literal["reasoning"]
    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: Long | None = None
    status: Status | None = None


class ItemReference(Wire):
    """A reference to a stored item. `type` may be omitted."""

    type: Literal["item_reference"] | None = "item_reference"
    id: Annotated[Id, Field(max_length=64)]


class McpTool(Wire):
    """A tool of an MCP server."""

    name: str
    input_schema: Any
    description: str | None = None
    annotations: Any = None


class McpListToolsItem(Item):
    """The tool list of an MCP server."""

    type: Literal["mcp_list_tools"]
    server_label: str
    tools: list[McpTool]
    error: str | None = None


class McpFailure(Wire):
    """A failure of an MCP server or its connection."""

    type: Literal["mcp_protocol_error", "http_error"]
    code: int
    message: str


class McpToolFailure(Wire):
    """A failure of an MCP tool."""

    type: Literal["mcp_tool_execution_error"]
    content: Any


McpError = Annotated[
    Annotated[McpFailure, Tag("<mcp_protocol_error>")]
    | Annotated[McpFailure, Tag("<http_error>")]
    | Annotated[McpToolFailure, Tag("<mcp_tool_execution_error>")],
    by_type("mcp_protocol_error", "mcp_tool_execution_error", "http_error"),
]


class McpCallItem(Item):
    """A call of a server-side tool."""

    type: Literal["mcp_call"]
    server_label: str
    name: Name
    arguments: Long
    approval_request_id: Id | None = None
    output: Long | None = None
    error: McpError | None = None
    status: Literal["in_progress", "completed", "incomplete", "calling", "failed"] | None = None


class McpApprovalRequestItem(Item):
    """A request for a person's approval of a call."""

    type: Literal["mcp_approval_request"]
    server_label: str
    name: Name
    arguments: Long


class McpApprovalResponseItem(Item):
    """A person's decision on an approval request."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id
    approve: bool
    reason: Long | None = None


class SearchResult(Wire):
    """A passage found by a file search."""

    attributes: dict[str, str | float | bool] | None = None
    file_id: str | None = None
    filename: str | None = None
    score: float | None = None
    text: str | None = None


class FileSearchCallItem(Item):
    """A file search call."""

    type: Literal["file_search_call"]
    queries: list[str]
    results: list[SearchResult] | None = None
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None


class Logs(Wire):
    """The printed output of code."""

    type: Literal["logs"]
    logs: str


class CodeImage(Wire):
    """An image produced by code."""

    type: Literal["image"]
    url: str


CodeOutput = Annotated[
    Annotated[Logs, Tag("<logs>")] | Annotated[CodeImage, Tag("<image>")],
    by_type("logs", "image"),
]


class CodeInterpreterCallItem(Item):
    """A code interpreter call."""

    type: Literal["code_interpreter_call"]
    code: Long | None
    container_id: str
    outputs: list[CodeOutput] | None = None
    status: Literal["in_progress", "completed", "incomplete", "interpreting", "failed"] | None = None


class CompactionItem(Item):
    """A compacted conversation, readable only by the server."""

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
    """Return an item's type. If omitted, it is inferred: a message has a role, a reference only an id."""
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
