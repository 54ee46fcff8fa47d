"""Request schemas of responses. Parameters without meaning for a self-hosted server are accepted and ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, model_validator

from ..conversations.schemas import Input
from ..http.common_schemas import (
    MAX_NUMBER,
    ByJson,
    ByType,
    Effort,
    Function,
    FunctionName,
    HostedChoice,
    Id,
    Instructions,
    Metadata,
    Name,
    OneOfTwo,
    Penalty,
    PlainFormat,
    Ranking,
    Share,
    Temperature,
    Wire,
)

Elsewhere = Literal[
    "web_search",
    "web_search_preview",
    "image_generation",
    "computer",
    "computer_use_preview",
    "local_shell",
    "shell",
    "apply_patch",
    "tool_search",
]
ELSEWHERE: tuple[str, ...] = get_args(Elsewhere)
_STRING_OR_OBJECT = ByJson("one of a string or an object")


class ResponseFunctionTool(Function):
    """A function that the client runs; `parameters` is a JSON Schema."""

    type: Literal["function"]


class ResponseCustomTool(Wire):
    """A tool of the client that takes plain text. A grammar in `format` is told to the model, but not enforced."""

    type: Literal["custom"]
    name: FunctionName
    description: Annotated[str, Field(max_length=65_536)] | None = None
    format: dict[str, Any] | None = None


class ResponseNamespaceTool(Wire):
    """A group of the client's functions. Models know each as `NAMESPACE__NAME`."""

    type: Literal["namespace"]
    name: FunctionName
    description: str | None = None
    tools: Annotated[list[Annotated[ResponseFunctionTool | ResponseCustomTool, ByType()]], Field(max_length=128)]


class ToolFilter(Wire):
    """Selects tools by name, and by whether they only read."""

    tool_names: Annotated[list[Name], Field(max_length=128)] | None = None
    read_only: bool | None = None


class ApprovalRules(Wire):
    """The tools that need a person's approval, and those that do not."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class ResponseMcpTool(Wire):
    """The server's own tools; the label is the model's name. Declarations of other servers are refused."""

    type: Literal["mcp"]
    server_label: Name
    server_description: str | None = None
    allowed_tools: (
        Annotated[
            Annotated[list[Name], Field(max_length=128)] | ToolFilter,
            ByJson("one of an array of strings or an object"),
        ]
        | None
    ) = None
    require_approval: Annotated[Literal["always", "never"] | ApprovalRules, _STRING_OR_OBJECT] | None = None
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None


class ResponseFileSearchTool(Wire):
    """The hosted file search; `filters` are as in `/vector_stores/{id}/search`."""

    type: Literal["file_search"]
    vector_store_ids: Annotated[list[Id], Field(max_length=20)] | None = None
    filters: dict[str, Any] | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] | None = None
    ranking_options: Ranking | None = None


class Container(Wire):
    """The files whose text a program can read."""

    type: Literal["auto"]
    file_ids: Annotated[list[Id], Field(max_length=50)] | None = None


class ResponseCodeInterpreterTool(Wire):
    """The hosted code interpreter. Every program starts afresh, whatever the container id."""

    type: Literal["code_interpreter"]
    container: Annotated[Id | Container, _STRING_OR_OBJECT] | None = None


class HostedTool(Wire):
    """A tool that OpenAI hosts; stored as sent, with all its fields."""

    model_config = ConfigDict(extra="allow")

    type: Elsewhere


ToolOf = Annotated[
    ResponseFunctionTool
    | ResponseCustomTool
    | ResponseNamespaceTool
    | ResponseMcpTool
    | ResponseFileSearchTool
    | ResponseCodeInterpreterTool
    | HostedTool,
    ByType(),
]


class ResponseFunctionChoice(Wire):
    """Requires a call of this function, or of this custom tool."""

    type: Literal["function", "custom"]
    name: FunctionName


class McpChoice(Wire):
    """Requires a call of this tool of the agent; the label is the agent's name."""

    type: Literal["mcp"]
    server_label: str
    name: str | None = None


class AllowedTool(Wire):
    """A tool of the request, by its type and its name."""

    model_config = ConfigDict(extra="allow")

    type: Name
    name: Name | None = None


class ResponseAllowedChoice(Wire):
    """Restricts calls to these tools, or requires one of them."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedTool], Field(min_length=1, max_length=128)]


ToolChoice = Annotated[
    Literal["none", "auto", "required"]
    | Annotated[ResponseFunctionChoice | ResponseAllowedChoice | McpChoice | HostedChoice, ByType()],
    _STRING_OR_OBJECT,
]


class ResponseSchemaFormat(Wire):
    """The answer is JSON that matches a schema."""

    type: Literal["json_schema"]
    name: FunctionName
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


class TextConfig(Wire):
    """The format of the answer."""

    format: Annotated[PlainFormat | ResponseSchemaFormat, ByType()] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class Reasoning(Wire):
    """How much the model reasons, and how much of it is shown."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None  # its former name


class ContextManagement(Wire):
    """From how many tokens on the earlier conversation is summarized."""

    type: Literal["compaction"]
    compact_threshold: Annotated[int, Field(ge=1_000, le=MAX_NUMBER)] | None = None


class ConversationId(Wire):
    """A conversation, by id."""

    id: Id


class Compact(Wire):
    """`POST /responses/compact`: the conversation to pack into one item."""

    model: str
    input: Input | None = None
    instructions: Instructions | None = None
    previous_response_id: Id | None = None
    prompt_cache_key: str | None = None


class InputTokens(Wire):
    """`POST /responses/input_tokens`: the input of a response. Codex CLI sends tools and settings among the items."""

    model: str | None = None
    input: Input | None = None
    instructions: Instructions | None = None
    previous_response_id: Id | None = None
    conversation: Annotated[Id | ConversationId, _STRING_OR_OBJECT] | None = None
    tools: Annotated[list[ToolOf], Field(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    truncation: Literal["auto", "disabled"] | None = None
    reasoning: Reasoning | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_tools_of_items(cls, given: Any) -> Any:
        """Return the request with `additional_tools` among its tools, and without items that only tell settings."""
        items = given.get("input") if isinstance(given, dict) else None
        kinds = [one.get("type") if isinstance(one, dict) else None for one in items] if isinstance(items, list) else []
        if "additional_tools" not in kinds and "configuration_update" not in kinds:
            return given
        told = list(zip(items or (), kinds, strict=True))
        lists = [given.get("tools"), *(item.get("tools") for item, kind in told if kind == "additional_tools")]
        tools = [tool for one in lists if one is not None for tool in (one if isinstance(one, list) else [one])]
        kept = [item for item, kind in told if kind not in ("additional_tools", "configuration_update")]
        return {**given, "input": kept, "tools": tools}


class ResponseCreate(OneOfTwo, InputTokens):
    """`POST /responses`. `model` defaults to the file's first agent."""

    moved = {
        "messages": "'input'",
        "response_format": "'text.format'",
        "verbosity": "'text.verbosity'",
        "reasoning_effort": "'reasoning.effort'",
        "max_tokens": "'max_output_tokens'",
        "max_completion_tokens": "'max_output_tokens'",
        "functions": "'tools'",
        "function_call": "'tool_choice'",
        "thread_id": "'conversation'",
    }
    foreign = {
        "n": (1,),
        "stop": ([],),
        "seed": (),
        "logprobs": (False,),
        "logit_bias": ({},),
        "modalities": (["text"],),
        "audio": (),
    }

    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    max_output_tokens: Annotated[int, Field(ge=16, le=MAX_NUMBER)] | None = None
    max_tool_calls: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: Annotated[str, Field(max_length=64)] | None = None
    prompt_cache_key: str | None = None
    include: list[str] | None = None
    stream_options: dict[str, Any] | None = None
    service_tier: str | None = None
    prompt: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None
    context_management: Annotated[list[ContextManagement], Field(max_length=1)] | None = None
