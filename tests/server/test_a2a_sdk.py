"""The A2A SDK's client, over both bindings, against the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as wire
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict, ParseDict

from fakes.a2a_client import BINDINGS, a2a_client, asks, sent, state_of, task_of, text_of
from fakes.app_server import KEY, Serving
from retinue import Agent, PromptModel, tool

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("binding", BINDINGS)]
BOOKED: list[str] = []


@tool(approval=True)
def book(place: str) -> str:
    """Books a table."""
    BOOKED.append(place)
    return f"booked at {place}"


SCRIPT: list[Any] = [
    {"when": "Please book two", "call": [{"tool": "book", "input": "Nopi"}, {"tool": "book", "input": "Kiln"}]},
    {"when": "Please book", "call": {"tool": "book", "input": "Nopi"}},
    {"when": "hang", "error": "hang"},
    {"when": "my name", "finish": "You are Ada."},
    {"when": "fail", "error": 500},
    {"when": "refused", "finish": "Then not."},
    {"when": "closed today", "finish": "It is closed."},
    {"when": "", "finish": "Paris is the capital of France."},
]


def agents() -> dict[str, Agent]:
    from retinue.net.retry import Retries

    model = PromptModel(script=SCRIPT, retries=Retries(tries=1))
    return {
        "waiter": Agent(model, [book], name="waiter", strategy="tool_calling"),
        "org/other: 1": Agent(PromptModel(script=[{"when": "", "finish": "Other."}]), name="other"),
    }


@pytest.fixture(scope="module")
def restaurant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("a2a"), agents()) as server:
        yield server


def waiter(served: Serving) -> str:
    return f"{served.url}/a2a/waiter"


async def test_text(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding, streaming=False) as client:
        (event,) = await sent(client, asks("What is the capital of France?"))
        assert state_of(event.task) == "COMPLETED"
        assert text_of(event.task) == "Paris is the capital of France."
        again = await client.get_task(wire.GetTaskRequest(id=event.task.id))
        assert again == event.task
        assert [part.text for one in again.history for part in one.parts] == ["What is the capital of France?"]


async def test_streaming(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        first, *events = await sent(client, asks("What is the capital of France?"))
        assert first.HasField("task")
        updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
        assert "".join(part.text for one in updates for part in one.artifact.parts) == "Paris is the capital of France."
        assert [one.append for one in updates] == [False] + [True] * (len(updates) - 1)
        assert [one.last_chunk for one in updates] == [False] * (len(updates) - 1) + [True]
        states = [state_of(event.status_update) for event in events if event.HasField("status_update")]
        assert states == ["WORKING", "COMPLETED"]
        assert {one.task_id for one in updates} == {first.task.id}


async def test_a_context_is_a_conversation(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        first = await task_of(client, asks("I am Ada."))
        second = await task_of(client, asks("What is my name?", context_id=first.context_id))
        assert second.context_id == first.context_id
        assert text_of(second) == "You are Ada."
        own = await task_of(client, asks("Hello", context_id=f"my own {binding}"))
        assert own.context_id == f"my own {binding}"
        found = await client.list_tasks(wire.ListTasksRequest(context_id=own.context_id))
        assert [one.id for one in found.tasks] == [own.id]
        path = f"/v1/threads/{first.context_id}/messages"
        messages = await asyncio.to_thread(restaurant.ask, "GET", path)
        assert [one["role"] for one in messages.body["data"]] == ["assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("answer", "booked", "said"),
    [
        ("approve", ["Nopi"], "Paris is the capital of France."),
        ("reject", [], "Then not."),
        ({"decision": "edit", "arguments": {"place": "Kiln"}}, ["Kiln"], "Paris is the capital of France."),
        ("It is closed today", [], "It is closed."),
    ],
)
async def test_input_required(restaurant: Serving, binding: str, answer: Any, booked: list[str], said: str) -> None:
    BOOKED.clear()
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        events = await sent(client, asks("Please book"))
        asked = events[-1].status_update
        assert state_of(asked) == "INPUT_REQUIRED"
        assert asked.status.message.parts[0].text.startswith('May book be called with {"place": "Nopi"}?')
        (call,) = MessageToDict(asked.status.message.parts[1].data)["calls"]
        assert call["arguments"] == {"place": "Nopi"}
        assert not BOOKED
        request = asks("")
        if isinstance(answer, str):
            request.message.parts[0].text = answer
        else:
            ParseDict(answer, request.message.parts[0].data)
        request.message.task_id = asked.task_id
        task = await task_of(client, request)
        assert (state_of(task), text_of(task), BOOKED) == ("COMPLETED", said, booked)
        assert len(task.history) == 2


async def test_several_questions(restaurant: Serving, binding: str) -> None:
    BOOKED.clear()
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        task = await task_of(client, asks("Please book two"))
        assert state_of(task) == "INPUT_REQUIRED"
        with pytest.raises(errors.InvalidParamsError, match="waits for 2 answers"):
            await sent(client, asks("approve", task_id=task.id))
        calls = MessageToDict(task.status.message.parts[1].data)["calls"]
        request = asks("", task_id=task.id)
        outputs = {one["id"]: "approve" if one["arguments"]["place"] == "Kiln" else "reject" for one in calls}
        ParseDict({"outputs": outputs}, request.message.parts[0].data)
        assert state_of(await task_of(client, request)) == "COMPLETED"
        assert BOOKED == ["Kiln"]


async def test_cancel(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        stream = client.send_message(asks("hang"))
        first = await anext(aiter(stream))
        cancelled = await client.cancel_task(wire.CancelTaskRequest(id=first.task.id))
        assert state_of(cancelled) == "CANCELED"
        last = [event async for event in stream][-1]
        assert state_of(last.status_update) == "CANCELED"
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(wire.CancelTaskRequest(id=first.task.id))
        with pytest.raises(errors.UnsupportedOperationError, match="takes no message"):
            await sent(client, asks("more", task_id=first.task.id))


async def test_a_waiting_task_is_cancelled_at_once(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        task = await task_of(client, asks("Please book"))
        assert state_of(await client.cancel_task(wire.CancelTaskRequest(id=task.id))) == "CANCELED"


async def test_a_client_may_leave_and_follow_later(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding, streaming=True, polling=True) as client:
        stream = client.send_message(asks("hang"))
        task_id = (await anext(aiter(stream))).task.id
        await stream.aclose()  # type: ignore[attr-defined]
        events = client.subscribe(wire.SubscribeToTaskRequest(id=task_id))
        first = await anext(aiter(events))
        assert first.task.id == task_id
        await client.cancel_task(wire.CancelTaskRequest(id=task_id))
        assert state_of([event async for event in events][-1].status_update) == "CANCELED"
        with pytest.raises(errors.UnsupportedOperationError, match="nothing to follow"):
            await anext(aiter(client.subscribe(wire.SubscribeToTaskRequest(id=task_id))))


async def test_polling(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding, streaming=False, polling=True) as client:
        (event,) = await sent(client, asks("hang"))
        assert state_of(event.task) in ("SUBMITTED", "WORKING")
        await client.cancel_task(wire.CancelTaskRequest(id=event.task.id))


async def test_a_failure_is_told(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        events = await sent(client, asks("Please fail"))
        task = await client.get_task(wire.GetTaskRequest(id=events[0].task.id))
        assert state_of(events[-1].status_update) == state_of(task) == "FAILED"
        assert "could not be reached" in task.status.message.parts[0].text


async def test_lists(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        tasks = [await task_of(client, asks(f"Hello {number}", context_id=f"list {binding}")) for number in range(3)]
        ids = [task.id for task in reversed(tasks)]
        asked = wire.ListTasksRequest(context_id=f"list {binding}", page_size=2, include_artifacts=True)
        page = await client.list_tasks(asked)
        assert [one.id for one in page.tasks] == ids[:2]
        assert page.total_size == 3
        assert text_of(page.tasks[0])
        asked.page_token = page.next_page_token
        rest = await client.list_tasks(asked)
        assert [one.id for one in rest.tasks] == ids[2:]
        assert not rest.next_page_token
        path = f"/a2a/waiter/tasks?contextId={quote(f'list {binding}')}&pageSize=0"
        raw = await asyncio.to_thread(restaurant.ask, "GET", path, headers={"A2A-Version": "1.0"})
        assert (raw.status, len(raw.body["tasks"])) == (200, 3)
        unsaid = await client.list_tasks(wire.ListTasksRequest(context_id=f"list {binding}", page_size=0))
        assert ([one.id for one in unsaid.tasks], unsaid.page_size) == (ids, 50)
        failed = wire.ListTasksRequest(context_id=f"list {binding}", status="TASK_STATE_FAILED")
        assert not (await client.list_tasks(failed)).tasks
        with pytest.raises(errors.InvalidParamsError):
            await client.list_tasks(wire.ListTasksRequest(page_token="run_no"))


async def test_a_wrong_key(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), "sk-wrong-0123456789", binding) as client:
        with pytest.raises(A2AClientError, match="401"):
            await sent(client, asks("Hello"))


async def test_what_is_not_there(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        for work in (
            client.get_task(wire.GetTaskRequest(id="run_no")),
            client.cancel_task(wire.CancelTaskRequest(id="run_no")),
            sent(client, asks("Hello", task_id="run_no")),
        ):
            with pytest.raises(errors.TaskNotFoundError):
                await work


async def test_what_is_not_supported(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        request = asks("Hello")
        request.configuration.task_push_notification_config.url = "http://127.0.0.1/hook"
        with pytest.raises(errors.PushNotificationNotSupportedError):
            await sent(client, request)
        with pytest.raises(errors.PushNotificationNotSupportedError):
            await client.get_task_push_notification_config(
                wire.GetTaskPushNotificationConfigRequest(task_id="run_1", id="1")
            )
        request = asks("Hello")
        request.configuration.accepted_output_modes.append("image/png")
        with pytest.raises(errors.ContentTypeNotSupportedError):
            await sent(client, request)
        request = asks("Hello")
        request.message.parts.append(wire.Part(url="http://127.0.0.1/secret.txt"))
        with pytest.raises(errors.ContentTypeNotSupportedError):
            await sent(client, request)


async def test_one_task_at_a_time_in_a_context(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        task = await task_of(client, asks("Please book"))
        with pytest.raises(errors.UnsupportedOperationError, match="already has an active run"):
            await sent(client, asks("Hello", context_id=task.context_id))
        with pytest.raises(errors.InvalidParamsError, match="No thread found"):
            await sent(client, asks("Hello", context_id="thread_unknown"))
        with pytest.raises(errors.InvalidParamsError, match="is in the context"):
            await sent(client, asks("approve", task_id=task.id, context_id="another"))


async def test_cards(restaurant: Serving, binding: str) -> None:
    async with a2a_client(waiter(restaurant), KEY, binding) as client:
        card = await client.get_extended_agent_card(wire.GetExtendedAgentCardRequest())
        assert [skill.id for skill in card.skills] == ["waiter", "book"]
    async with a2a_client(f"{restaurant.url}/a2a/org%2Fother: 1", KEY, binding) as client:
        assert text_of(await task_of(client, asks("Hello"))) == "Other."
