"""Threads and their messages through the SDK."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, each, of, refused

pytestmark = MARKS


def text(message: Any) -> str:
    """What a message says: asked with `text: str`, answered with `text: {value, annotations}`."""
    return "".join(part.text.value for part in message.content if part.type == "text")


async def test_a_thread_is_made_with_messages_changed_and_deleted(client: Any) -> None:
    messages: Any = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two", "metadata": {"a": "1"}},
    ]
    made = await of(client.beta.threads.create(messages=messages, metadata={"place": "kitchen"}))
    assert (made.id[:7], made.object, made.metadata) == ("thread_", "thread", {"place": "kitchen"})
    assert await of(client.beta.threads.retrieve(made.id)) == made
    found = [message async for message in each(client.beta.threads.messages.list(made.id, order="asc"))]
    assert [(one.role, text(one), one.metadata) for one in found] == [
        ("user", "One", {}),
        ("assistant", "Two", {"a": "1"}),
    ]
    changed = await of(client.beta.threads.update(made.id, metadata={"place": "hall"}))
    assert changed == made.model_copy(update={"metadata": {"place": "hall"}})
    gone = await of(client.beta.threads.delete(made.id))
    assert (gone.id, gone.object, gone.deleted) == (made.id, "thread.deleted", True)
    calls: list[Any] = [
        lambda: client.beta.threads.retrieve(made.id),
        lambda: client.beta.threads.messages.list(made.id),
        lambda: client.beta.threads.messages.retrieve(found[0].id, thread_id=made.id),
        lambda: client.beta.threads.messages.create(made.id, role="user", content="Three"),
        lambda: client.beta.threads.runs.list(made.id),
    ]
    for call in calls:
        with refused(openai.NotFoundError, f"No thread found with id '{made.id}'."):
            await of(call())


async def test_a_message(client: Any) -> None:
    thread = await of(client.beta.threads.create())
    made = await of(client.beta.threads.messages.create(thread.id, role="user", content="Hello", metadata={"a": "1"}))
    assert (made.id[:4], made.object, made.thread_id) == ("msg_", "thread.message", thread.id)
    assert (made.role, made.assistant_id, made.run_id, made.metadata) == ("user", None, None, {"a": "1"})
    (part,) = made.content
    assert (part.type, part.text.value, part.text.annotations) == ("text", "Hello", [])
    assert await of(client.beta.threads.messages.retrieve(made.id, thread_id=thread.id)) == made
    changed = await of(client.beta.threads.messages.update(made.id, thread_id=thread.id, metadata={"b": "2"}))
    assert changed == made.model_copy(update={"metadata": {"b": "2"}})
    gone = await of(client.beta.threads.messages.delete(made.id, thread_id=thread.id))
    assert (gone.id, gone.object, gone.deleted) == (made.id, "thread.message.deleted", True)
    with refused(openai.NotFoundError, f"No message found with id '{made.id}'."):
        await of(client.beta.threads.messages.retrieve(made.id, thread_id=thread.id))
    assert [one async for one in each(client.beta.threads.messages.list(thread.id))] == []


async def test_a_message_in_parts(client: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    parts: Any = [{"type": "text", "text": "Look:"}, image]
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": parts}]))
    (found,) = (await of(client.beta.threads.messages.list(thread.id))).data
    assert (found.content[0].text.value, found.content[1].to_dict()) == ("Look:", image)


async def test_messages_come_in_pages_the_newest_first(client: Any) -> None:
    thread = await of(client.beta.threads.create())
    messages = client.beta.threads.messages
    made = [(await of(messages.create(thread.id, role="user", content=str(n)))).id for n in range(7)]
    assert [one.id async for one in each(messages.list(thread.id))] == made[::-1]
    assert [one.id async for one in each(messages.list(thread.id, limit=2))] == made[::-1]
    assert [one.id async for one in each(messages.list(thread.id, limit=3, order="asc"))] == made
    page = await of(messages.list(thread.id, limit=2, after=made[4]))
    assert ([one.id for one in page.data], page.has_more) == ([made[3], made[2]], True)
    page = await of(messages.list(thread.id, limit=2, order="asc", before=made[2]))
    assert ([one.id for one in page.data], page.has_more) == (made[:2], False)
    page = await of(messages.list(thread.id, limit=2, after=made[0]))
    assert (page.data, page.has_more, page.first_id, page.last_id) == ([], False, None, None)


async def test_the_messages_of_a_run_can_be_asked_for(client: Any) -> None:
    assistant = await of(client.beta.assistants.create(model="plain"))
    thread = await of(client.beta.threads.create())
    runs = []
    for question in ("Hello", "Answer as JSON"):
        await of(client.beta.threads.messages.create(thread.id, role="user", content=question))
        runs.append(await of(client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)))
    for run, answer in zip(runs, ("Hello, I am an agent.", '{"city": "Paris", "degrees": 21}'), strict=True):
        (said,) = [one async for one in each(client.beta.threads.messages.list(thread.id, run_id=run.id))]
        assert (text(said), said.run_id, said.role) == (answer, run.id, "assistant")
    assert len([one async for one in each(client.beta.threads.messages.list(thread.id))]) == 4


WRONG: Any = [
    ({"role": "tool", "content": "x"}, "invalid_value", "role"),
    ({"role": "user"}, "missing_required_parameter", "content"),
    ({"content": "x"}, "missing_required_parameter", "role"),
    ({"role": "user", "content": 7}, "invalid_type", "content"),
    ({"role": "user", "content": []}, "empty_array", "content"),
]


@pytest.mark.parametrize(("body", "code", "param"), WRONG)
async def test_a_message_that_is_none(client: Any, body: Any, code: str, param: str) -> None:
    thread = await of(client.beta.threads.create())
    with refused(openai.BadRequestError, code=code, param=param):
        await of(client.post(f"/threads/{thread.id}/messages", body=body, cast_to=object))


async def test_an_unknown_thread_and_an_unknown_message(client: Any) -> None:
    with refused(openai.NotFoundError, "No thread found with id 'thread_unknown'."):
        await of(client.beta.threads.retrieve("thread_unknown"))
    thread, other = await of(client.beta.threads.create()), await of(client.beta.threads.create())
    made = await of(client.beta.threads.messages.create(thread.id, role="user", content="Hello"))
    with refused(openai.NotFoundError, f"No message found with id '{made.id}'."):
        await of(client.beta.threads.messages.retrieve(made.id, thread_id=other.id))
