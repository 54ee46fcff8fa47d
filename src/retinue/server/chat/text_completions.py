"""`POST /completions`: OpenAI's first API, which some clients use by default. A prompt is a chat's only message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from ...store.run_row import RunRow
from ..context import ContextDep
from ..http.api_errors import ApiError
from ..http.common_schemas import ByJson, Penalty, Share, Temperature, Text, Wire
from ..http.objects import Object
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED
from ..run_session import Begun, RunSession
from .chat_run import ChatRun
from .projection import Chunks
from .schemas import ChatCreate, MaxTokens, Seed, Stops, StreamOptions

router = APIRouter(route_class=JsonRoute)
_UNSUPPORTED = ("suffix", "echo", "logprobs")


class CompletionCreate(Wire):
    """The request. `prompt` is one text; tokens and several prompts are refused."""

    model: str
    prompt: Annotated[
        Text | Annotated[list[Text], Field(min_length=1, max_length=1)],
        ByJson("one of a string or an array of one string"),
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    stop: Stops | None = None
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, int] | None = None
    user: str | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    best_of: Annotated[int, Field(ge=1, le=1)] | None = None
    # would change the answer but cannot be supported
    suffix: str | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    def as_chat(self) -> ChatCreate:
        """Return the same as a chat. Raises `ApiError` for what no chat has."""
        sent = self.sent()
        for name in _UNSUPPORTED:
            if sent.pop(name, None):
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                raise ApiError(400, message, param=name, code="unsupported_parameter")
        prompt = sent.pop("prompt")
        sent.pop("best_of", None)
        said = [{"role": "user", "content": prompt if isinstance(prompt, str) else prompt[0]}]
        return ChatCreate.model_validate({**sent, "messages": said})


class _TextChunks(Chunks):
    """The same event stream in the format of completions."""

    def chunk(self, delta: Object, finish: str | None = None) -> Object:
        """Return a chunk."""
        return _completion(super().chunk(delta, finish), delta.get("content"), finish)

    def end(self, run: RunRow) -> Iterator[Object]:
        """Yield the chunks with which the stream ends."""
        yield from map(_renamed, super().end(run))  # with the usage


class _TextRun(ChatRun):
    """A completion of a prompt, as a chat."""

    def projection(self, begun: Begun) -> Chunks:
        """Return the chunks of the answer."""
        return _TextChunks(begun.run, with_usage=self.body.with_usage, reasoning=False)

    async def answer(self, session: RunSession, begun: Begun) -> Object:
        """Return the completion once the run rests."""
        chat = await super().answer(session, begun)
        (choice,) = chat["choices"]
        return _completion(chat, choice["message"]["content"], choice["finish_reason"])


@router.post("/completions", responses=STREAMED)
async def create(body: CompletionCreate, context: ContextDep, request: Request) -> Any:
    """Complete a prompt."""
    return await _TextRun(context, request, body.as_chat()).respond()


def _completion(chat: Object, text: str | None, finish: str | None) -> Object:
    """Return a completion of a chat, or a chunk of one, as one of a text. Raises `ApiError` if the run waits."""
    if finish == "tool_calls":
        message = "A person must approve what this model is about to do; completions have no place for this. Use chat."
        raise ApiError(400, message, code="awaiting_human", headers={"x-should-retry": "false"})
    choice = {"text": text or "", "index": 0, "logprobs": None, "finish_reason": finish}
    return {**_renamed(chat), "choices": [choice]}


def _renamed(chat: Object) -> Object:
    return {**chat, "id": chat["id"].removeprefix("chat"), "object": "text_completion"}
