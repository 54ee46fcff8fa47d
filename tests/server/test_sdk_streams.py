"""Runs through the SDK, streamed: the events in their order, and what the SDK makes of them in a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import openai
import pytest

from fakes.sdk import (
    BEGUN,
    CALLING,
    MARKS,
    RESUMED,
    SAYING,
    WEATHER,
    each,
    in_short,
    of,
    opened,
    outputs,
    place,
    recorder,
)
from fakes.served import Served

pytestmark = MARKS


async def prepared(client: Any, question: str, model: str = "plain") -> dict[str, Any]:
    """An assistant with the client's tool and a thread with a question: what a run is made with."""
    who = await of(client.beta.assistants.create(model=model, tools=[WEATHER]))
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": question}]))
    return {"thread_id": thread.id, "assistant_id": who.id}


def order(events: Iterable[Any]) -> list[str]:
    return in_short(event.event for event in events)


def said(events: Iterable[Any]) -> str:
    """The text of the deltas."""
    deltas = [event.data.delta for event in events if event.event == "thread.message.delta"]
    assert all(part.index == 0 for delta in deltas for part in delta.content)
    return "".join(part.text.value or "" for delta in deltas for part in delta.content)


# ── the events ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["plain", "react", "react_json", "planexec"])
async def test_a_text(client: Any, model: str) -> None:
    made = await prepared(client, "Hello", model)
    thread = made.pop("thread_id")
    stream = await of(client.beta.threads.runs.create(thread, **made, stream=True))
    events = [event async for event in each(stream)]
    assert order(events) == [*BEGUN, *SAYING]
    by_name = {event.event: event.data for event in events}
    created, completed = by_name["thread.message.created"], by_name["thread.message.completed"]
    assert (created.content, created.status, created.run_id) == ([], "in_progress", events[0].data.id)
    assert (created.id, completed.status) == (completed.id, "completed")
    assert said(events) == completed.content[0].text.value == "Hello, I am an agent."
    step = by_name["thread.run.step.completed"]
    assert (step.type, step.step_details.message_creation.message_id) == ("message_creation", created.id)
    run = await of(client.beta.threads.runs.retrieve(events[0].data.id, thread_id=thread))
    assert by_name["thread.run.completed"] == run
    assert [message.id async for message in each(client.beta.threads.messages.list(thread, run_id=run.id))] == [
        completed.id
    ]


async def test_a_text_comes_word_by_word(client: Any) -> None:
    made = await prepared(client, "Hello")
    stream = await of(client.beta.threads.runs.create(made.pop("thread_id"), **made, stream=True))
    assert [event.event async for event in each(stream)].count("thread.message.delta") > 1


async def test_a_thread_made_with_its_run_comes_first(client: Any) -> None:
    made = await prepared(client, "Hello")
    thread: Any = {"messages": [{"role": "user", "content": "Hello"}]}
    options: Any = {"assistant_id": made["assistant_id"], "thread": thread}
    stream = await of(client.beta.threads.create_and_run(**options, stream=True))
    events = [event async for event in each(stream)]
    assert order(events) == ["thread.created", *BEGUN, *SAYING]
    assert {event.data.thread_id for event in events if event.event == "thread.run.created"} == {events[0].data.id}


@pytest.mark.parametrize("model", ["plain", "react", "react_json", "planexec"])
async def test_a_call_of_the_clients_tool_ends_the_stream_and_its_outputs_begin_another(
    client: Any, model: str
) -> None:
    made = await prepared(client, "What is the weather?", model)
    thread, runs = made.pop("thread_id"), client.beta.threads.runs
    events = [event async for event in each(await of(runs.create(thread, **made, stream=True)))]
    assert order(events) == [*BEGUN, *CALLING, "thread.run.requires_action"]
    step = next(event.data for event in events if event.event == "thread.run.step.created")
    assert (step.type, step.step_details.tool_calls) == ("tool_calls", [])
    run = events[-1].data
    assert run == await of(runs.retrieve(run.id, thread_id=thread))
    given = {"thread_id": thread, "tool_outputs": outputs(run)}
    events = [event async for event in each(await of(runs.submit_tool_outputs(run.id, **given, stream=True)))]
    assert order(events) == [*RESUMED, *SAYING]
    assert (events[0].data.id, events[0].data.status) == (step.id, "completed")
    assert events[0].data.step_details.tool_calls[0].function.output == "21 degrees"
    assert said(events) == "It is 21 degrees in Paris."


async def test_deltas_of_calls_add_up(client: Any) -> None:
    made = await prepared(client, "Compare two cities.")
    stream = await of(client.beta.threads.runs.create(made.pop("thread_id"), **made, stream=True))
    events = [event async for event in each(stream)]
    deltas = [event.data.delta.step_details for event in events if event.event == "thread.run.step.delta"]
    calls = [call for details in deltas for call in details.tool_calls]
    for index, waiting in enumerate(events[-1].data.required_action.submit_tool_outputs.tool_calls):
        mine = [call for call in calls if call.index == index]
        assert [call.id for call in mine if call.id] == [waiting.id]  # said once
        assert [call.function.name for call in mine if call.function.name] == ["get_weather"]
        assert "".join(call.function.arguments or "" for call in mine) == waiting.function.arguments


SERVER_TOOLS: Any = ["step_details.tool_calls[*].server_tools"]


async def test_a_tool_of_the_servers_own_is_a_step_for_who_asks(client: Any) -> None:
    made = await prepared(client, "What is 2 to the power of 3?", "tool_calling")
    thread = made.pop("thread_id")
    stream = await of(client.beta.threads.runs.create(thread, **made, stream=True))
    assert order([event async for event in each(stream)]) == [*BEGUN, *SAYING]
    made = await prepared(client, "What is 2 to the power of 3?", "tool_calling")  # on a thread that knows nothing yet
    thread = made.pop("thread_id")
    stream = await of(client.beta.threads.runs.create(thread, **made, stream=True, include=SERVER_TOOLS))
    events = [event async for event in each(stream)]
    assert order(events) == [*BEGUN, *CALLING, "thread.run.step.completed", *SAYING]
    step = next(event.data for event in events if event.event == "thread.run.step.completed")
    assert step.step_details.tool_calls[0].function.output == "8"


async def test_a_run_that_fails(client: Any) -> None:
    made = await prepared(client, "Something unheard of")
    stream = await of(client.beta.threads.runs.create(made.pop("thread_id"), **made, stream=True))
    events = [event async for event in each(stream)]
    assert order(events)[:3] == BEGUN
    assert (events[-1].event, events[-1].data.last_error.code) == ("thread.run.failed", "server_error")


async def test_a_cancelled_runs_stream_ends(deployed: Served) -> None:
    async with deployed.async_client() as client:
        made = await prepared(client, "Wait for ever")
        thread, seen = made.pop("thread_id"), []
        async with asyncio.timeout(30):
            async for event in await client.beta.threads.runs.create(thread, **made, stream=True):
                seen.append(event.event)
                if event.event == "thread.run.in_progress":
                    await client.beta.threads.runs.cancel(event.data.id, thread_id=thread)
    assert seen[-1] == "thread.run.cancelled"
    assert seen[:3] == BEGUN
    assert set(seen[3:]) <= {
        "thread.run.step.created", "thread.run.step.in_progress", "thread.run.step.cancelled",
        "thread.run.cancelling", "thread.run.cancelled",
    }  # fmt: skip


async def test_a_second_run_is_refused_before_its_stream_begins(client: Any) -> None:
    made = await prepared(client, "What is the weather?")
    run = await of(client.beta.threads.runs.create_and_poll(**made))
    with pytest.raises(openai.BadRequestError, match=f"already has an active run {run.id}"):
        await of(client.beta.threads.runs.create(made["thread_id"], assistant_id=run.assistant_id, stream=True))


# ── what a handler is told ───────────────────────────────────────────────────────────────────────


async def test_a_handler_of_a_text(client: Any) -> None:
    made, handler = await prepared(client, "Hello"), recorder(client)
    async with opened(client.beta.threads.runs.stream(**made, event_handler=handler)) as stream:
        await of(stream.until_done())
    assert list(dict.fromkeys(name for name, _ in handler.calls)) == [
        "run_step_created", "message_created", "text_created", "text_delta", "message_delta", "text_done",
        "message_done", "run_step_done", "end",
    ]  # fmt: skip
    assert "".join(given.value for name, given in handler.calls if name == "text_delta") == "Hello, I am an agent."
    (done,) = [given for name, given in handler.calls if name == "text_done"]
    assert done.value == "Hello, I am an agent."


async def test_a_handler_of_a_tools_round_trip(client: Any) -> None:
    made, handler = await prepared(client, "Compare two cities."), recorder(client)
    async with opened(client.beta.threads.runs.create_and_stream(**made, event_handler=handler)) as stream:
        run = await of(stream.get_final_run())
        (step,) = await of(stream.get_final_run_steps())
    told = [name for name, _ in handler.calls if name != "tool_call_delta"]
    assert list(dict.fromkeys(told)) == [
        "run_step_created", "tool_call_created", "run_step_delta", "tool_call_done", "end",
    ]  # fmt: skip
    assert [place(call) for name, call in handler.calls if name == "tool_call_done"] == ["Paris", "London"]
    assert [call.id for call in step.step_details.tool_calls] == [output["tool_call_id"] for output in outputs(run)]
    handler = recorder(client)
    given = {"run_id": run.id, "thread_id": run.thread_id, "tool_outputs": outputs(run)}
    async with opened(client.beta.threads.runs.submit_tool_outputs_stream(**given, event_handler=handler)) as stream:
        (message,) = await of(stream.get_final_messages())
        run = await of(stream.get_final_run())
    assert (run.status, message.content[0].text.value) == ("completed", "Paris 21, London 19.")
    assert [name for name, _ in handler.calls if name.startswith("run_step")] == [
        "run_step_done", "run_step_created", "run_step_done",
    ]  # fmt: skip
    assert {name for name, _ in handler.calls} & {"exception", "timeout"} == set()


async def test_only_the_texts_of_a_new_thread(client: Any) -> None:
    made = await prepared(client, "Hello")
    thread: Any = {"messages": [{"role": "user", "content": "Answer as JSON"}]}
    streaming = client.beta.threads.create_and_run_stream(assistant_id=made["assistant_id"], thread=thread)
    async with opened(streaming) as stream:
        texts = [text async for text in each(stream.text_deltas)]
    assert "".join(texts) == '{"city": "Paris", "degrees": 21}'
