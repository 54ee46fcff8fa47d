"""Requests of A2A 1.0, in the JSON form of its protocol buffers. Unknown fields are ignored, as the protocol asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from ..http.common_schemas import MAX_NUMBER

Id = Annotated[str, Field(max_length=256, pattern=r"^[^\x00]*$")]
HistoryLength = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
TaskState = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]
_CONTENTS = ("text", "raw", "url", "data")
MAX_TEXT = 256_000  # characters of a message
INPUT_MODES = ("text/plain", "application/json")
OUTPUT_MODES = ("text/plain",)


class A2ARequest(BaseModel):
    """A request, or part of one. `null` counts as absent, as in every JSON form of a protocol buffer."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: one for name, one in value.items() if one is not None or name == "data"}

    def sent(self) -> dict[str, Any]:
        """Return the fields that were sent, as JSON."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Part(A2ARequest):
    """A part of a message: exactly one of a text, data, the bytes of a file (base64) and a file's address."""

    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None

    @model_validator(mode="after")
    def _one_content(self) -> Part:
        if len(self.model_fields_set.intersection(_CONTENTS)) != 1:
            raise ValueError(f"a part has exactly one of {', '.join(_CONTENTS)}")
        return self

    @property
    def kind(self) -> str:
        """Which of the contents it has."""
        return next(name for name in _CONTENTS if name in self.model_fields_set)


class Message(A2ARequest):
    """A message of a client."""

    message_id: Annotated[Id, Field(min_length=1)]
    context_id: Id = ""
    task_id: Id = ""
    role: Literal["ROLE_USER"]
    parts: Annotated[Sequence[Part], Field(min_length=1, max_length=256)]
    metadata: dict[str, Any] | None = None
    extensions: Sequence[str] | None = None
    reference_task_ids: Sequence[str] | None = None


class Configuration(A2ARequest):
    """How a message is to be answered."""

    accepted_output_modes: Sequence[str] = ()
    task_push_notification_config: Any = None
    history_length: HistoryLength | None = None
    return_immediately: bool = False


class SendMessage(A2ARequest):
    """`SendMessage` and `SendStreamingMessage`."""

    message: Message
    configuration: Configuration = Configuration()
    metadata: dict[str, Any] | None = None


class TaskQuery(A2ARequest):
    """`GetTask`, `CancelTask` and `SubscribeToTask`."""

    id: Annotated[Id, Field(min_length=1)]
    history_length: HistoryLength | None = None


class ListTasks(A2ARequest):
    """`ListTasks`."""

    context_id: Id = ""
    status: TaskState = "TASK_STATE_UNSPECIFIED"
    page_size: Annotated[int, Field(ge=0, le=100)] = 50
    page_token: Id = ""
    history_length: HistoryLength | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False


class Nothing(A2ARequest):
    """A request without parameters, or whose parameters do not matter."""
