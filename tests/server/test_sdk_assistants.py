"""Assistants through the SDK: made, looked up, changed, listed page by page, deleted."""

from __future__ import annotations

import time
from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, WEATHER, each, of, refused

pytestmark = MARKS


async def test_an_assistant_is_what_it_was_made_as(client: Any) -> None:
    settings: Any = {
        "model": "react", "name": "Kim", "description": "Knows the weather.", "instructions": "Be kind.",
        "metadata": {"team": "north"}, "temperature": 0.5, "top_p": 0.9, "response_format": "auto",
    }  # fmt: skip
    made = await of(client.beta.assistants.create(**settings, tools=[WEATHER]))
    assert (made.id[:5], made.object) == ("asst_", "assistant")
    assert abs(made.created_at - time.time()) < 60
    assert {key: getattr(made, key) for key in settings} == settings
    assert [tool.to_dict() for tool in made.tools] == [WEATHER]
    assert await of(client.beta.assistants.retrieve(made.id)) == made


async def test_an_assistant_may_be_nothing_but_a_model(client: Any) -> None:
    made = await of(client.beta.assistants.create(model="plain"))
    assert (made.name, made.description, made.instructions) == (None, None, None)
    assert (made.tools, made.metadata) == ([], {})


async def test_tools_that_openai_hosted_are_kept_as_they_are(client: Any) -> None:
    tools: Any = [{"type": "code_interpreter"}, {"type": "file_search", "file_search": {"max_num_results": 5}}]
    made = await of(client.beta.assistants.create(model="plain", tools=tools))
    assert [tool.to_dict() for tool in made.tools] == tools


async def test_only_what_is_sent_changes(client: Any) -> None:
    made = await of(
        client.beta.assistants.create(
            model="plain", name="Kim", instructions="Be kind.", tools=[WEATHER], metadata={"a": "1", "b": "2"}
        )
    )
    changed = await of(client.beta.assistants.update(made.id, name="Robin", metadata={"c": "3"}))
    assert changed == made.model_copy(update={"name": "Robin", "metadata": {"c": "3"}})
    assert await of(client.beta.assistants.retrieve(made.id)) == changed
    changed = await of(client.beta.assistants.update(made.id, model="react", tools=[], metadata={}))
    assert (changed.model, changed.tools, changed.metadata) == ("react", [], {})
    assert (changed.name, changed.instructions) == ("Robin", "Be kind.")


async def test_the_sdk_turns_the_pages_of_a_list(client: Any) -> None:
    made = [(await of(client.beta.assistants.create(model="plain", name=f"{n}"))).id for n in range(5)]
    found = []
    async for assistant in each(client.beta.assistants.list(limit=2)):  # the newest first
        found.append(assistant.id)
        if len(found) == 5:
            break
    assert found == made[::-1]
    later = [one.id async for one in each(client.beta.assistants.list(limit=2, order="asc", after=made[1]))]
    assert later == made[2:]
    page = await of(client.beta.assistants.list(order="asc", after=made[0], before=made[3]))
    assert ([one.id for one in page.data], page.has_more) == (made[1:3], False)
    page = await of(client.beta.assistants.list(limit=2))
    assert (page.object, page.has_more) == ("list", True)
    assert (page.first_id, page.last_id) == (made[4], made[3])


LIMITS: Any = [
    (0, "integer_below_min_value", "below minimum value. Expected a value >= 1, but got 0 instead."),
    (101, "integer_above_max_value", "above maximum value. Expected a value <= 100, but got 101 instead."),
]


@pytest.mark.parametrize(("limit", "code", "message"), LIMITS)
async def test_a_page_has_up_to_a_hundred(client: Any, limit: int, code: str, message: str) -> None:
    with refused(openai.BadRequestError, f"Invalid 'limit': integer {message}", code, "limit"):
        await of(client.beta.assistants.list(limit=limit))


async def test_what_is_deleted_is_gone(client: Any) -> None:
    made = await of(client.beta.assistants.create(model="plain"))
    gone = await of(client.beta.assistants.delete(made.id))
    assert (gone.id, gone.object, gone.deleted) == (made.id, "assistant.deleted", True)
    unknown = f"No assistant found with id '{made.id}'."
    for call in (client.beta.assistants.retrieve, client.beta.assistants.update, client.beta.assistants.delete):
        with refused(openai.NotFoundError, unknown):
            await of(call(made.id))
    thread = await of(client.beta.threads.create())
    with refused(openai.NotFoundError, unknown):
        await of(client.beta.threads.runs.create(thread.id, assistant_id=made.id))


async def test_a_model_that_is_not_there(client: Any) -> None:
    with refused(openai.NotFoundError, code="model_not_found", param="model"):
        await of(client.beta.assistants.create(model="gpt-4"))


async def test_an_assistant_needs_a_model(client: Any) -> None:
    there_are = ", ".join([one.id async for one in each(client.models.list()) if one.id != "minilm"])
    said = f"Missing required parameter: 'model'. This server has several models; name one of: {there_are}."
    with refused(openai.BadRequestError, said, "missing_required_parameter", "model"):
        await of(client.post("/assistants", body={"name": "Kim"}, cast_to=object))


METADATA: Any = [
    (
        {str(n): "" for n in range(17)},
        ("object_above_max_properties", "metadata"),
        "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object "
        "with 17 properties instead.",
    ),
    (
        {"k": "x" * 600},
        ("string_above_max_length", "metadata.k"),
        "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with "
        "length 600 instead.",
    ),
    ({"k" * 65: ""}, ("property_name_above_max_length", "metadata"), None),
]


@pytest.mark.parametrize(("metadata", "place", "message"), METADATA, ids=["pairs", "value", "key"])
async def test_metadata_has_limits_everywhere(client: Any, metadata: Any, place: Any, message: str | None) -> None:
    assistant = await of(client.beta.assistants.create(model="plain"))
    thread = await of(client.beta.threads.create())
    said = await of(client.beta.threads.messages.create(thread.id, role="user", content="Hello"))
    calls: list[Any] = [
        lambda: client.beta.assistants.create(model="plain", metadata=metadata),
        lambda: client.beta.assistants.update(assistant.id, metadata=metadata),
        lambda: client.beta.threads.create(metadata=metadata),
        lambda: client.beta.threads.update(thread.id, metadata=metadata),
        lambda: client.beta.threads.messages.create(thread.id, role="user", content="Hi", metadata=metadata),
        lambda: client.beta.threads.messages.update(said.id, thread_id=thread.id, metadata=metadata),
        lambda: client.beta.threads.runs.create(thread.id, assistant_id=assistant.id, metadata=metadata),
        lambda: client.beta.threads.create_and_run(assistant_id=assistant.id, metadata=metadata),
    ]
    for call in calls:
        with refused(openai.BadRequestError, message, *place):
            await of(call())


async def test_metadata_at_its_limits_is_kept(client: Any) -> None:
    metadata = {f"{n:064}": "x" * 512 for n in range(16)}
    assert (await of(client.beta.threads.create(metadata=metadata))).metadata == metadata
    assert (await of(client.beta.threads.create(metadata=None))).metadata == {}
