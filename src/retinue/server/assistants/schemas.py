"""Request schemas of assistants, threads, messages and runs: one model per operation with a body."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..http.common_schemas import (
    MAX_NUMBER,
    ByJson,
    ByType,
    CodeInterpreterTool,
    Effort,
    FileSearchTool,
    Id,
    Instructions,
    Many,
    Metadata,
    MetadataUpdate,
    Name,
    ResponseFormat,
    Share,
    Temperature,
    Text,
    Tokens,
    Tool,
    ToolChoice,
    ToolResources,
    TruncationStrategy,
    Wire,
)

Tools = Annotated[list[Tool], Field(max_length=128)]
Count = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Detail = Literal["auto", "low", "high"]


class Settings(Wire):
    """What both an assistant and a run say. Those that a run does not say are its assistant's."""

    tools: Tools | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None


class AssistantUpdate(Settings):
    """`POST /assistants/{id}`: only the fields sent change. The fields are those of an assistant."""

    model: Annotated[Name, Field(json_schema_extra=lambda schema: schema.pop("default", None))] = ""  # none was sent
    name: Annotated[str, Field(max_length=256)] | None = None
    description: Annotated[str, Field(max_length=512)] | None = None
    instructions: Instructions | None = None
    tool_resources: ToolResources | None = None
    metadata: Metadata | None = None


class AssistantCreate(AssistantUpdate):
    """`POST /assistants`. `agent_config` is OPEA's."""

    agent_config: dict[str, Any] | None = None


class AgentConfig(Wire):
    """The supported settings of OPEA's `agent_config`, with our names for them; others are refused. `strategy` must be
    the agent's own."""

    model_config = ConfigDict(extra="forbid")

    agent_name: str | None = None
    strategy: str | None = None
    role_description: Annotated[Instructions | None, Field(serialization_alias="instructions")] = None
    recursion_limit: Annotated[Count | None, Field(serialization_alias="max_steps")] = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_new_tokens: Annotated[Count | None, Field(serialization_alias="max_tokens")] = None  # per reply


class TextPart(Wire):
    """A text part of a message."""

    type: Literal["text"]
    text: Text


class ImageUrl(Wire):
    """The URL of an image: http(s) or data."""

    url: Annotated[str, Field(min_length=1)]
    detail: Detail = "auto"


class ImageUrlPart(Wire):
    """An image part, by URL."""

    type: Literal["image_url"]
    image_url: ImageUrl


class ImageFile(Wire):
    """The file of an image."""

    file_id: Id
    detail: Detail = "auto"


class ImageFilePart(Wire):
    """An image part, by file."""

    type: Literal["image_file"]
    image_file: ImageFile


Part = Annotated[TextPart | ImageUrlPart | ImageFilePart, ByType()]
Content = Annotated[
    Text | Annotated[list[Part], Field(min_length=1), Many], ByJson("one of a string or array of objects")
]
AttachmentTool = Annotated[CodeInterpreterTool | FileSearchTool, ByType()]


class Attachment(Wire):
    """A file attached to a message, and the hosted tools that may use it."""

    file_id: Id | None = None
    tools: list[AttachmentTool] | None = None


class MessageCreate(Wire):
    """`POST /threads/{id}/messages`. `assistant_id` is OPEA's."""

    role: Literal["user", "assistant"]
    content: Content
    attachments: Annotated[list[Attachment], Many] | None = None
    metadata: Metadata | None = None
    assistant_id: Id | None = None


class ThreadUpdate(MetadataUpdate):
    """`POST /threads/{id}`: only the fields sent change."""

    tool_resources: ToolResources | None = None


class ThreadCreate(ThreadUpdate):
    """`POST /threads`."""

    messages: Annotated[list[MessageCreate], Many] | None = None


class RunSettings(Settings):
    """What a run keeps of its request as it was sent."""

    tools: Annotated[Tools, Field(max_length=20)] | None = None
    tool_choice: ToolChoice | None = None
    max_prompt_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    truncation_strategy: TruncationStrategy | None = None
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None  # OpenAI's clients send it in the query


class RunWishes(RunSettings):
    """The fields common to both ways to create a run. Missing or null ones are taken from the assistant."""

    assistant_id: Id
    model: Name | None = None
    instructions: Instructions | None = None
    metadata: Metadata | None = None
    stream: bool | None = None


class RunCreate(RunWishes):
    """`POST /threads/{id}/runs`. `multitask_strategy`, an extension, says what happens if another run is active on the
    thread."""

    additional_instructions: Instructions | None = None
    additional_messages: Annotated[list[MessageCreate], Many] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt"] | None = None


class ThreadRunCreate(RunWishes):
    """`POST /threads/runs`: creates a thread and a run on it."""

    thread: ThreadCreate | None = None
    tool_resources: ToolResources | None = None
