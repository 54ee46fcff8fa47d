"""What every answer must be, beside what Schemathesis checks itself."""

from __future__ import annotations

import json
from typing import Annotated, Any, get_args

import schemathesis
from openai.types import (
    Model,
    VectorStore,
    VectorStoreDeleted,
    beta as assistants,
    conversations,
    file_deleted,
    file_object,
    responses,
    vector_stores,
)
from openai.types.beta import threads
from openai.types.beta.threads import runs
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionDeleted
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .families import Case

# What the SDK takes an answer for, by the answer's `object`: its types are stricter than any document.
TYPES: dict[str, type[BaseModel]] = {
    "assistant": assistants.Assistant,
    "assistant.deleted": assistants.AssistantDeleted,
    "chat.completion": ChatCompletion,
    "chat.completion.chunk": ChatCompletionChunk,
    "chat.completion.deleted": ChatCompletionDeleted,
    "conversation": conversations.Conversation,
    "conversation.deleted": conversations.ConversationDeletedResource,
    "file": file_object.FileObject,
    "file.deleted": file_deleted.FileDeleted,
    "model": Model,
    "response": responses.Response,
    "response.compaction": responses.CompactedResponse,
    "thread": assistants.Thread,
    "thread.deleted": assistants.ThreadDeleted,
    "thread.message": threads.Message,
    "thread.message.deleted": threads.MessageDeleted,
    "thread.run": threads.Run,
    "thread.run.step": runs.RunStep,
    "vector_store": VectorStore,
    "vector_store.deleted": VectorStoreDeleted,
    "vector_store.file": vector_stores.VectorStoreFile,
    "vector_store.file.deleted": vector_stores.VectorStoreFileDeleted,
    "vector_store.files_batch": vector_stores.VectorStoreFileBatch,
}
# The same of a conversation's items, which have no `object`, by their `type`.
ITEMS: dict[str, type[BaseModel]] = {
    get_args(item.model_fields["type"].annotation)[0]: item
    for item in get_args(get_args(conversations.ConversationItem)[0])
}


class Envelope(BaseModel):
    """What is in `error`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    message: Annotated[str, Field(min_length=1)]
    type: Annotated[str, Field(min_length=1)]
    param: str | None
    code: str | None


@schemathesis.check
def error_envelope(_: schemathesis.CheckContext, response: schemathesis.Response, __: Case) -> None:
    """An error is `{"error": {"message", "type", "param", "code"}}`, and every answer has its id."""
    assert response.headers.get("x-request-id"), "no x-request-id"
    if response.status_code < 400:
        return
    said = _json(response.text)
    assert isinstance(said, dict), f"no object: {response.text[:200]}"
    assert set(said) == {"error"}, f"no envelope: {response.text[:200]}"
    _validated(Envelope, said["error"])


@schemathesis.check
def sdk_types(_: schemathesis.CheckContext, response: schemathesis.Response, case: Case) -> None:
    """The SDK, when it validates, takes the answer for what it is."""
    kind = response.headers.get("content-type", [""])[0]
    if response.status_code >= 300:
        return
    if kind.startswith("text/event-stream"):
        events = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: ")]
        assert events or "starting_after=" in str(response.request.url), "an empty stream"  # all was told before
        for event in events:
            if event != "[DONE]":
                _fits(_json(event), case)
    elif kind.startswith("application/json") and "/v1/" in case.path:
        _fits(_json(response.text), case)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise AssertionError(f"no JSON: {text[:200]}") from None


def _fits(said: Any, case: Case) -> None:
    """Raises `AssertionError` if it does not."""
    if not isinstance(said, dict):
        return
    name = said.get("object")
    if name == "list":
        for one in said["data"]:
            _fits(one, case)
        return
    if said.get("deleted"):  # of files and responses, whose objects are then still called so
        name = {"file": "file.deleted", "response": "response.deleted"}.get(str(name), name)
    kind = TYPES.get(str(name)) or (ITEMS.get(said.get("type", "")) if "/conversations/" in case.path else None)
    if kind is not None:
        _validated(kind, said)


def _validated(kind: type[BaseModel], said: Any) -> None:
    try:
        kind.model_validate(said)
    except ValidationError as error:
        raise AssertionError(f"not what {kind.__name__} is: {error}") from None
