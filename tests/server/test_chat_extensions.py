"""What chat completions have beyond OpenAI's: a thread that the server keeps, thoughts, seed 003's form."""

from __future__ import annotations

from typing import Any

import openai

from fakes.sdk import MARKS, of, refused
from fakes.served import Served

pytestmark = MARKS


async def said(client: Any, text: str, **more: Any) -> str:
    messages = [{"role": "user", "content": text}]
    answer = await of(client.chat.completions.create(model="plain", messages=messages, **more))
    return str(answer.choices[0].message.content)


async def test_a_header_names_a_conversation_that_the_server_keeps(client: Any) -> None:
    before = (await of(client.get("/threads?limit=1", cast_to=object)))["first_id"]
    key = {"X-Retinue-Thread": f"window of {type(client).__name__}"}
    for question in ("Hello", "How warm is it, as JSON?"):
        await said(client, question, extra_headers=key)
    new = await of(client.get(f"/threads?order=asc&after={before or ''}", cast_to=object))
    assert len(new["data"]) == 1
    kept = (await of(client.beta.threads.messages.list(new["first_id"], order="asc"))).data
    assert [one.role for one in kept] == ["user", "assistant"] * 2
    assert [one.content[0].text.value for one in kept][::2] == ["Hello", "How warm is it, as JSON?"]


async def test_a_thread_is_named_by_its_id(client: Any) -> None:
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": "Good morning"}]))
    answer = await said(client, "Hello", metadata={"thread_id": thread.id})
    last = (await of(client.beta.threads.messages.list(thread.id))).data[0]
    assert (last.role, last.content[0].text.value) == ("assistant", answer)
    with refused(openai.NotFoundError, "No thread found with id 'thread_nowhere'."):
        await said(client, "Hello", metadata={"thread_id": "thread_nowhere"})


async def test_a_thread_that_is_busy_takes_no_other_question(client: Any) -> None:
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": "Wait for ever"}]))
    who = await of(client.beta.assistants.create(model="plain"))
    run = await of(client.beta.threads.runs.create(thread.id, assistant_id=who.id))
    with refused(openai.BadRequestError, f"Thread {thread.id} already has an active run {run.id}."):
        await said(client, "Hello", metadata={"thread_id": thread.id})
    await of(client.beta.threads.runs.cancel(run.id, thread_id=thread.id))


async def test_only_what_is_new_of_a_conversation_is_added_to_its_thread(client: Any) -> None:
    thread = await of(client.beta.threads.create())
    turns: list[Any] = [{"role": "user", "content": "Hello"}]
    for _ in range(2):
        options: Any = {"metadata": {"thread_id": thread.id}}
        answer = await of(client.chat.completions.create(model="plain", messages=turns, **options))
        turns += [{"role": "assistant", "content": answer.choices[0].message.content}, turns[0]]
    assert len((await of(client.beta.threads.messages.list(thread.id))).data) == 4


async def test_thoughts_are_told_to_those_who_ask_for_them(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "What is 2 to the power of 3?"}]
    given: Any = {"model": "react", "messages": messages}
    plain = await of(client.chat.completions.create(**given))
    thinking = await of(client.chat.completions.create(**given, extra_body={"reasoning": True}))
    assert "reasoning_content" not in plain.choices[0].message.model_dump(exclude_unset=True)
    assert "Action" in thinking.choices[0].message.reasoning_content
    assert thinking.choices[0].message.content == plain.choices[0].message.content


def test_messages_may_be_a_text_as_seed_003_sends_them(deployed: Served) -> None:
    with deployed.client() as client:
        answer: Any = client.post("/chat/completions", body={"model": "plain", "messages": "Hello"}, cast_to=object)
    assert answer["text"] == answer["choices"][0]["message"]["content"]
