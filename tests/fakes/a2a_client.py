"""The A2A SDK's own client, for a server on loopback."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as wire

BINDINGS = ("JSONRPC", "HTTP+JSON")
_SECONDS = 30.0


@asynccontextmanager
async def a2a_client(url: str, key: str, binding: str = "JSONRPC", **config: Any) -> AsyncIterator[Client]:
    """The SDK's client of the agent whose card is under `url`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(headers=headers, timeout=_SECONDS) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        settings = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **config)
        yield ClientFactory(settings).create(card)


def asks(text: str, **more: Any) -> wire.SendMessageRequest:
    """A request with a text of the user's; `more` are fields of the message."""
    said = wire.Message(message_id=uuid.uuid4().hex, role="ROLE_USER", parts=[wire.Part(text=text)], **more)
    return wire.SendMessageRequest(message=said)


async def sent(client: Client, request: wire.SendMessageRequest) -> list[wire.StreamResponse]:
    """All that comes back for a message."""
    return [event async for event in client.send_message(request)]


async def task_of(client: Client, request: wire.SendMessageRequest) -> wire.Task:
    """The task of a message, as it is once its stream has ended."""
    events = await sent(client, request)
    return await client.get_task(wire.GetTaskRequest(id=events[0].task.id))


def text_of(task: wire.Task) -> str:
    """What a task has said."""
    return "\n".join(part.text for artifact in task.artifacts for part in artifact.parts)


def state_of(task: wire.Task | wire.TaskStatusUpdateEvent) -> str:
    """A task's state, by name."""
    return str(wire.TaskState.Name(task.status.state)).removeprefix("TASK_STATE_")
