"""Responses that are kept: in the background, streamed again, cancelled, forgotten; and across a kill."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import openai
import pytest

from fakes.responses import BEGUN, HELLO, SAYING, TOOL, outputs
from fakes.sdk import MARKS, each, in_short, of, opened, refused
from fakes.served import Served
from fakes.until import until, until_async

pytestmark = MARKS


def ended(response: Any) -> bool:
    return response.status not in ("queued", "in_progress")


async def test_in_the_background(client: Any) -> None:
    begun = await of(client.responses.create(model="plain", input="Hello", background=True))
    assert (begun.status, begun.background, begun.output, begun.usage) == ("queued", True, [], None)

    async def looked() -> Any:
        raw = await of(client.responses.with_raw_response.retrieve(begun.id))
        assert 250 <= int(raw.headers["openai-poll-after-ms"]) <= 1000
        response = raw.parse()
        return ended(response) and response

    done = await until_async(looked)
    assert (done.status, done.output_text) == ("completed", HELLO)


async def test_a_stream_goes_on_from_any_event(client: Any) -> None:
    stream = await of(client.responses.create(model="plain", input="Answer slowly", background=True, stream=True))
    begun, first = "", []
    async for event in each(stream):  # the client goes away; the response goes on
        begun = event.response.id
        first.append(event)
        if len(first) == 2:
            break
    await of(stream.close())
    assert [event.type for event in first] == ["response.created", "response.queued"]
    rest = [event async for event in each(await of(client.responses.retrieve(begun, stream=True, starting_after=1)))]
    assert in_short(event.type for event in rest) == ["response.in_progress", *SAYING, "response.completed"]
    events = [event async for event in each(await of(client.responses.retrieve(begun, stream=True)))]
    assert [event.to_dict() for event in events] == [event.to_dict() for event in (*first, *rest)]
    for after in range(len(events)):
        stream = await of(client.responses.retrieve(begun, stream=True, starting_after=after))
        assert [event.to_dict() async for event in each(stream)] == [event.to_dict() for event in events[after + 1 :]]
    async with opened(client.responses.stream(response_id=begun, starting_after=2)) as helped:
        assert (await of(helped.get_final_response())).output_text == "At last."


async def test_a_response_in_the_background_can_be_cancelled(client: Any) -> None:
    begun = await of(client.responses.create(model="plain", input="Go on for ever", background=True))
    for _ in range(2):  # the second time changes nothing
        cancelled = await of(client.responses.cancel(begun.id))
        assert (cancelled.id, cancelled.status, cancelled.completed_at) == (begun.id, "cancelled", None)
    events = [event async for event in each(await of(client.responses.retrieve(begun.id, stream=True)))]
    assert (events[-1].type, events[-1].response.status) == ("response.incomplete", "cancelled")


async def test_what_cannot_be_cancelled(client: Any) -> None:
    done = await of(client.responses.create(model="plain", input="Hello"))
    with refused(openai.BadRequestError, "Cannot cancel a synchronous response."):
        await of(client.responses.cancel(done.id))
    begun = await of(client.responses.create(model="plain", input="Hello", background=True))
    [event async for event in each(await of(client.responses.retrieve(begun.id, stream=True)))]
    with refused(openai.BadRequestError, "Cannot cancel a completed response."):
        await of(client.responses.cancel(begun.id))


async def test_a_response_that_is_deleted_is_gone(client: Any) -> None:
    first = await of(client.responses.create(model="plain", input="What is the weather?", tools=[TOOL]))
    second = await of(client.responses.create(model="plain", input=outputs(first), previous_response_id=first.id))
    await of(client.responses.delete(first.id))
    for asked in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with refused(openai.NotFoundError, f"Response with id '{first.id}' not found."):
            await of(asked(first.id))
    assert (await of(client.responses.retrieve(second.id))).to_dict() == second.to_dict()
    third = await of(client.responses.create(model="plain", input="Hello", previous_response_id=second.id))
    assert third.output_text == HELLO
    await of(client.responses.delete(second.id))
    with pytest.raises(openai.NotFoundError):
        await of(client.responses.retrieve(second.id))
    begun = await of(client.responses.create(model="plain", input="Go on for ever", background=True))
    await of(client.responses.delete(begun.id))
    with pytest.raises(openai.NotFoundError):
        await of(client.responses.retrieve(begun.id))


async def test_a_response_that_is_not_stored_cannot_be_asked_for(client: Any) -> None:
    said = await of(client.responses.create(model="plain", input="Hello", store=False))
    assert (said.output_text, said.to_dict()["store"]) == (HELLO, False)
    for asked in (client.responses.retrieve, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            [item async for item in each(await of(asked(said.id)))]
    message = f"Previous response with id '{said.id}' not found."
    with refused(openai.BadRequestError, message, "previous_response_not_found", "previous_response_id"):
        await of(client.responses.create(model="plain", input="Hello", previous_response_id=said.id))


async def test_input_items_come_in_pages(client: Any) -> None:
    items: Any = [{"role": "user", "content": f"Hello {number}"} for number in range(5)]
    said = await of(client.responses.create(model="plain", input=items))
    pages = client.responses.input_items
    newest = [item.content[0].text async for item in each(await of(pages.list(said.id, limit=2)))]
    assert newest == [f"Hello {number}" for number in reversed(range(5))]
    page = await of(pages.list(said.id, limit=2, order="asc"))
    assert (len(page.data), page.has_more, page.first_id, page.last_id) == (2, True, page.data[0].id, page.data[1].id)
    rest = await of(pages.list(said.id, order="asc", after=page.last_id))
    assert ([item.content[0].text for item in rest.data], rest.has_more) == (["Hello 2", "Hello 3", "Hello 4"], False)


async def test_tokens_are_counted(client: Any) -> None:
    short = await of(client.responses.input_tokens.count(model="plain", input="Hello"))
    longer = await of(client.responses.input_tokens.count(model="plain", input="Hello" * 100, instructions="Be kind."))
    assert 0 < short.input_tokens < longer.input_tokens


def test_closing_the_connection_cancels_a_response_unless_it_is_in_the_background(deployed_apart: Served) -> None:
    with deployed_apart.client() as client:
        for store in (True, False):
            stream = client.responses.create(model="plain", input="Go on for ever", store=store, stream=True)
            next(iter(stream))
            stream.close()
            with pytest.raises(openai.APITimeoutError):
                client.with_options(timeout=0.3).responses.create(model="plain", input="Go on for ever", store=store)
        until(lambda: _counted(client) == {"cancelled": 4})
        key = {"Idempotency-Key": "comes back"}
        for more in ({"background": True}, {"extra_headers": key}):
            kept: Any = client.responses.create(model="plain", input="Answer slowly", stream=True, **more)
            begun: Any = next(iter(kept))
            kept.close()
            assert until(lambda: _found(client, begun.response.id)).output_text == "At last."  # noqa: B023


def _counted(client: openai.OpenAI) -> Any:
    return client.get("/statistics", cast_to=dict[str, Any])["runs"]


def _found(client: openai.OpenAI, id_: str) -> Any:
    response = client.responses.retrieve(id_)
    return ended(response) and response


async def test_a_stream_across_a_kill_has_no_gap_and_no_repeat(deployed_apart: Served) -> None:
    async with deployed_apart.async_client() as client:
        stream = await client.responses.create(model="plain", input="Answer slowly", background=True, stream=True)
        first: list[Any] = []
        with suppress(openai.APIError):
            async for event in stream:
                first.append(event)
                if event.type == "response.in_progress":
                    deployed_apart.kill()
        await asyncio.to_thread(deployed_apart.restart)
        begun = first[0].response.id
        after = first[-1].sequence_number
        rest: list[Any] = [
            event async for event in await client.responses.retrieve(begun, stream=True, starting_after=after)
        ]
        assert [event.sequence_number for event in (*first, *rest)] == list(range(len(first) + len(rest)))
        assert in_short(event.type for event in (*first, *rest)) == [
            "response.created", "response.queued", *BEGUN[1:], *SAYING, "response.completed",
        ]  # fmt: skip
        assert rest[-1].response.output_text == "At last."
        assert (await client.responses.retrieve(begun)).to_dict() == rest[-1].response.to_dict()


def test_what_waits_survives_a_kill(deployed_apart: Served) -> None:
    with deployed_apart.client() as client:
        first = client.responses.create(model="plain", input="What is the weather?", tools=[TOOL])
        deployed_apart.kill()
        deployed_apart.restart()
        assert client.responses.retrieve(first.id).to_dict() == first.to_dict()
        second = client.responses.create(model="plain", input=outputs(first), previous_response_id=first.id)
        assert second.output_text == "It is 21 degrees in Paris."
