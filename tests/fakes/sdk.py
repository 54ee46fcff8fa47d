"""The official Python SDK, blocking and not, from one body of a test.

`async def` tests get a `client` of either kind: `await of(…)` for what a method gives, `async for … in each(…)`
for pages and streams, `async with opened(…)` for what is a context.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import groupby
from typing import Any

import openai
import pytest
from openai import AssistantEventHandler, AsyncAssistantEventHandler
from pydantic import BaseModel

# The SDK calls its assistants deprecated, because OpenAI no longer serves them.
MARKS = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
DEGREES = {"Paris": "21 degrees", "London": "19 degrees"}  # what the client's tool says

# The parts of a run's stream of events, in OpenAI's order; however many deltas there are, they count once.
BEGUN = ["thread.run.created", "thread.run.queued", "thread.run.in_progress"]
RESUMED = ["thread.run.step.completed", "thread.run.queued", "thread.run.in_progress"]
SAYING = [
    "thread.run.step.created", "thread.run.step.in_progress", "thread.message.created", "thread.message.in_progress",
    "thread.message.delta", "thread.message.completed", "thread.run.step.completed", "thread.run.completed",
]  # fmt: skip
CALLING = ["thread.run.step.created", "thread.run.step.in_progress", "thread.run.step.delta"]


async def of(result: Any) -> Any:
    """What a method of either client gives."""
    return await result if inspect.isawaitable(result) else result


async def each(source: Any) -> AsyncIterator[Any]:
    """The items of a stream, or of a list with all its pages."""
    if hasattr(source, "__aiter__"):
        async for item in source:
            yield item
    else:
        for item in source:
            yield item


@asynccontextmanager
async def opened(manager: Any) -> AsyncIterator[Any]:
    """The stream of a helper."""
    if hasattr(manager, "__aenter__"):
        async with manager as stream:
            yield stream
    else:
        with manager as stream:
            yield stream


@contextmanager
def refused(
    kind: type[openai.APIStatusError], message: str | None = None, code: str | None = None, param: str | None = None
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """The block is refused with this kind of error and these texts; any `message` will do if none is given."""
    with pytest.raises(kind) as raised:
        yield raised
    error = raised.value
    assert isinstance(error.body, dict)
    assert {"message", "type", "param", "code"} <= set(error.body)
    assert message is None or error.body["message"] == message
    assert (error.code, error.param, error.type) == (code, param, "invalid_request_error")
    assert error.request_id


def in_short(names: Iterable[str]) -> list[str]:
    """The names without repetitions that follow each other: however many deltas there are."""
    return [name for name, _ in groupby(names)]


def outputs(run: Any) -> list[Any]:
    """What the client's tool says to the calls that a run waits for."""
    calls = run.required_action.submit_tool_outputs.tool_calls
    return [{"tool_call_id": call.id, "output": DEGREES[place(call)]} for call in calls]


def place(call: Any) -> str:
    """Where a call of `get_weather` asks for."""
    given = WeatherArguments.model_validate_json(call.function.arguments)
    return given.location


class WeatherArguments(BaseModel):
    """The arguments of the client's tool."""

    location: str


_CALLBACKS = (
    "run_step_created", "run_step_delta", "run_step_done", "tool_call_created", "tool_call_delta", "tool_call_done",
    "message_created", "message_delta", "message_done", "text_created", "text_delta", "text_done",
    "exception", "timeout", "end",
)  # fmt: skip


class Recorder(AssistantEventHandler):
    """Takes note of every callback: its name, and what it was first given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []
        for name in _CALLBACKS:
            setattr(self, f"on_{name}", partial(self._note, name))

    def _note(self, name: str, *given: Any) -> None:
        self.calls.append((name, copy.deepcopy(given[0]) if given else None))


class AsyncRecorder(AsyncAssistantEventHandler):
    """The same for the other client."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []
        for name in _CALLBACKS:
            setattr(self, f"on_{name}", partial(self._note, name))

    async def _note(self, name: str, *given: Any) -> None:
        self.calls.append((name, copy.deepcopy(given[0]) if given else None))


def recorder(client: Any) -> Any:
    """A handler for streams of this client."""
    return AsyncRecorder() if isinstance(client, openai.AsyncOpenAI) else Recorder()
