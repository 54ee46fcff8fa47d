"""The input items of the Responses API: messages, calls, outputs, reasoning and approvals, and the parts of their
content. Items of responses and of conversations are validated only here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from ..http.common_schemas import ByJson, ByType, Id, Many, Name, Wire

Long = Annotated[str, Field(max_length=10_485_760)]
Base64 = Annotated[str, Field(max_length=20_000_000)]
ItemId = Annotated[Id, Field(max_length=64)]
Status = Literal["in_progress", "completed", "incomplete"]


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


class InputText(Wire):
    """Text from the requester."""

    type: Literal["input_text"]
    text: Long


class InputImage(Wire):
    """An image, by URL (http(s) or data) or file id."""

    type: Literal["input_image"]
    detail: Literal["low", "high", "auto", "original"] = "auto"
    image_url: Long | None = None
    file_id: Id | None = None


class InputFile(Wire):
    """A file, by id, by URL, or as a data URL."""

    type: Literal["input_file"]
    detail: Literal["auto", "low", "high"] | None = None
    file_id: Id | None = None
    file_url: Long | None = None
    file_data: Base64 | None = None
    filename: Name | None = None


class Sound(Wire):
    """A sound in base64."""

    data: Base64
    format: Literal["wav", "mp3"]


class InputAudio(Wire):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: Sound


class Annotation(Wire):
    """A citation of a file, a web page, or a file in a container, or the path of a file; kept as it is sent."""

    model_config = ConfigDict(extra="allow")

    type: Literal["file_citation", "url_citation", "container_file_citation", "file_path"]


class OutputText(Wire):
    """Text from the model."""

    type: Literal["output_text"]
    text: Long
    annotations: list[Annotation] | None = None
    logprobs: list[dict[str, Any]] | None = None


class Refusal(Wire):
    """The model's refusal to answer."""

    type: Literal["refusal"]
    refusal: Long


Part = Annotated[InputText | InputImage | OutputText | Refusal | InputFile | InputAudio, ByType()]
GivenPart = Annotated[InputText | InputImage | InputFile | InputAudio, ByType()]
STRING_OR_ARRAY = ByJson("one of a string or array of objects")
Content = Annotated[Long | Annotated[list[Part], Many], STRING_OR_ARRAY]
Output = Annotated[Long | Annotated[list[GivenPart], Many], STRING_OR_ARRAY]


# ── items ────────────────────────────────────────────────────────────────────────────────────────


class Item(Wire):
    """The fields common to all items. Items without an `id` get one."""

    id: ItemId | None = None


class MessageItem(Item):
    """A message. `type` may be omitted."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class ClientCallItem(Item):
    """A call of a client's tool."""

    call_id: Id
    name: Name
    namespace: Name | None = None
    status: Status | None = None


class FunctionCallItem(ClientCallItem):
    """A call of a client's function; `arguments` is JSON text."""

    type: Literal["function_call"]
    arguments: Long


class CustomToolCallItem(ClientCallItem):
    """A call of a client's tool that takes plain text."""

    type: Literal["custom_tool_call"]
    input: Long


class ClientOutputItem(Item):
    """The output of a client's tool."""

    call_id: Id
    output: Output
    status: Status | None = None


class FunctionCallOutputItem(ClientOutputItem):
    """The output of a function call."""

    type: Literal["function_call_output"]


class CustomToolCallOutputItem(ClientOutputItem):
    """The output of a custom tool call."""

    type: Literal["custom_tool_call_output"]


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
    id: ItemId


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


McpError = Annotated[McpFailure | McpToolFailure, ByType()]


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


class CodeInterpreterCallItem(Item):
    """A code interpreter call."""

    type: Literal["code_interpreter_call"]
    code: Long | None
    container_id: str
    outputs: list[Annotated[Logs | CodeImage, ByType()]] | None = None
    status: Literal["in_progress", "completed", "incomplete", "interpreting", "failed"] | None = None


class CompactionItem(Item):
    """A compacted conversation, readable only by the server."""

    type: Literal["compaction"]
    encrypted_content: Long


def kind_of(item: Mapping[str, Any]) -> Any:
    """Return an item's type. If omitted, it is inferred: a message has a role, a reference only an id."""
    return item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else None)


InputItem: TypeAlias = Annotated[
    MessageItem
    | FunctionCallItem
    | FunctionCallOutputItem
    | CustomToolCallItem
    | CustomToolCallOutputItem
    | ReasoningItem
    | ItemReference
    | McpListToolsItem
    | McpCallItem
    | McpApprovalRequestItem
    | McpApprovalResponseItem
    | FileSearchCallItem
    | CodeInterpreterCallItem
    | CompactionItem,
    ByType(kind_of),
]
Input: TypeAlias = Annotated[str | Annotated[list[InputItem], Many], STRING_OR_ARRAY]
