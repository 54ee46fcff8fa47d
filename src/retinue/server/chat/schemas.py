"""Request schemas of chat completions. Parameters without meaning for a self-hosted server are accepted and ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..http.api_errors import ApiError
from ..http.common_schemas import (
    MAX_NUMBER,
    ByJson,
    ByType,
    Effort,
    FunctionChoice,
    FunctionTool,
    Id,
    Many,
    Metadata,
    OneOfTwo,
    Penalty,
    ResponseFormat,
    Share,
    Temperature,
    Text,
    Wire,
)
from ..models.audio import AudioOption

MaxTokens = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class Called(Wire):
    """The function called, with its arguments as JSON text."""

    name: str
    arguments: str = ""


class ToolCall(Wire):
    """A call made by the assistant."""

    id: str
    type: Literal["function", "custom"] = "function"
    function: Called | None = None
    custom: dict[str, Any] | None = None


Content = Annotated[str | Annotated[list[dict[str, Any]], Many], ByJson("one of a string or array of objects")]


class ChatMessage(Wire):
    """A message. `content` is text or a list of parts."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: Annotated[str, Field(max_length=64)] | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Called | None = None
    tool_call_id: str | None = None
    # of the model's messages, as clients send them back; only `audio` has an effect: it stands for what was said, and
    # the log has what the model's vendor wants
    audio: dict[str, Any] | None = None
    refusal: str | None = None
    annotations: list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None


class StreamOptions(Wire):
    """Options of a streamed completion."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


Messages = Annotated[
    Text | Annotated[list[ChatMessage], Field(min_length=1), Many], ByJson("one of a string or array of objects")
]
Stops = Annotated[str | Annotated[list[str], Field(max_length=4)], ByJson("one of a string or array of strings")]


class AllowedTools(Wire):
    """The tools that may, or must, be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[FunctionChoice], Field(min_length=1, max_length=128)]


class AllowedChoice(Wire):
    """Restricts calls to these tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Annotated[
    Literal["none", "auto", "required"] | Annotated[FunctionChoice | AllowedChoice, ByType()],
    ByJson("one of a string or an object"),
]


class ChatReasoning(Wire):
    """How much the model reasons, and whether that is left out of the answer (OpenRouter's format)."""

    effort: Effort | None = None
    exclude: bool | None = None
    enabled: bool | None = None
    max_tokens: int | None = None  # without effect


Reasoning = Annotated[bool | ChatReasoning, ByJson("one of a boolean or an object")]


class Sampled(Wire):
    """What both kinds of completions say of how they are sampled and streamed."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    stop: Stops | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, int] | None = None
    user: str | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None


class ChatCreate(Sampled, OneOfTwo):
    """The request. `model` defaults to the file's only agent. `thread_id` (a conversation stored by the server),
    `reasoning` and `include_reasoning` (the model's thoughts as `reasoning_content`) are extensions; `messages` may be
    plain text (OPEA's RFC on agents)."""

    moved = {
        "input": "'messages'",
        "instructions": "a message of the role 'developer'",
        "max_output_tokens": "'max_completion_tokens'",
        "text": "'response_format' and 'verbosity'",
        "previous_response_id": "'messages', which hold all that was said",
        "conversation": "'messages', which hold all that was said, or 'thread_id'",
    }
    foreign = {
        "background": (False,),
        "truncation": ("auto", "disabled"),
        "max_tool_calls": (),
        "include": ([],),
        "prompt": (),
    }

    model: str | None = None
    messages: Messages
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    max_completion_tokens: MaxTokens | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    reasoning_effort: Effort | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    modalities: list[str] | None = None
    audio: AudioOption | None = None
    thread_id: Id | None = None
    reasoning: Reasoning | None = None
    include_reasoning: bool | None = None
    # would change the answer but cannot be supported: refused
    functions: list[dict[str, Any]] | None = None
    function_call: Any = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    web_search_options: dict[str, Any] | None = None
    # no effect on the answer: accepted and ignored
    prediction: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None

    @property
    def effort(self) -> str | None:
        """How much the model is to reason."""
        inner = self.reasoning.effort if isinstance(self.reasoning, ChatReasoning) else None
        return self.reasoning_effort or inner

    @property
    def shows_reasoning(self) -> bool:
        """Whether the client asks to see the model's reasoning."""
        if self.include_reasoning is not None or self.reasoning is None:
            return bool(self.include_reasoning)
        if isinstance(self.reasoning, bool):
            return self.reasoning
        return not self.reasoning.exclude and self.reasoning.enabled is not False

    @property
    def spoken(self) -> AudioOption | None:
        """How the answer is to sound, if it is to be spoken."""
        return self.audio if "audio" in (self.modalities or ()) else None

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class CompletionCreate(Sampled):
    """The request for a completion of a prompt, which is one text; tokens and several prompts are refused."""

    model: str
    prompt: Annotated[
        Text | Annotated[list[Text], Field(min_length=1, max_length=1)],
        ByJson("one of a string or an array of one string"),
    ]
    best_of: Annotated[int, Field(ge=1, le=1)] | None = None
    # would change the answer but cannot be supported
    suffix: str | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    def as_chat(self) -> ChatCreate:
        """Return the same as a chat, whose only message is the prompt. Raises `ApiError` for what no chat has."""
        check_supported(self, "suffix", "echo", "logprobs")
        sent = self.sent()
        for name in ("suffix", "echo", "logprobs", "best_of"):
            sent.pop(name, None)
        prompt = sent.pop("prompt")
        said = [{"role": "user", "content": prompt if isinstance(prompt, str) else prompt[0]}]
        return ChatCreate.model_validate({**sent, "messages": said})


def check_supported(body: Wire, *names: str) -> None:
    """Raise `ApiError` for parameters that would change the answer but are not supported."""
    instead = {"functions": " Use 'tools' instead.", "function_call": " Use 'tool_choice' instead."}
    for name in names:
        if getattr(body, name):
            message = f"Unsupported parameter: '{name}' is not supported with this model.{instead.get(name, '')}"
            raise ApiError(400, message, param=name, code="unsupported_parameter")
