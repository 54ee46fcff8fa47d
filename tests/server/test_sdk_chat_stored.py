"""Chat completions with `store: true`, through the SDK: listed, read, noted upon, forgotten."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, each, of, refused

pytestmark = MARKS


async def stored(client: Any, word: str, number: int) -> Any:
    messages = [{"role": "user", "content": f"Hello {word} {number}"}]
    noted = {"word": word, "even": str(number % 2 == 0)}
    return await of(client.chat.completions.create(model="plain", messages=messages, store=True, metadata=noted))


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_hold_each_once_also_where_most_do_not_fit(client: Any, order: Any) -> None:
    word = f"{order} {type(client).__name__}"
    made = [(await stored(client, word, number)).id for number in range(5)]
    if order == "desc":
        made.reverse()
    for wanted, expected in (({"word": word}, made), ({"word": word, "even": "True"}, made[::2])):
        pages = await of(client.chat.completions.list(limit=2, order=order, model="plain", metadata=wanted))
        assert [one.id async for one in each(pages)] == expected
    assert not (await of(client.chat.completions.list(model="nobody", metadata={"word": word}))).data


async def test_one_is_read_noted_upon_and_forgotten(client: Any) -> None:
    made = await stored(client, "one", 1)
    read = await of(client.chat.completions.retrieve(made.id))
    assert (read.id, read.choices[0].message.content) == (made.id, made.choices[0].message.content)
    await of(client.chat.completions.update(made.id, metadata={"seen": "yes"}))
    assert (await of(client.chat.completions.retrieve(made.id))).metadata == {"seen": "yes"}
    # not by its helper: the SDK's type knows no role but the assistant's, whatever OpenAI's own examples show
    said = (await of(client.get(f"/chat/completions/{made.id}/messages", cast_to=object)))["data"]
    assert [(one["role"], one["content"]) for one in said] == [("user", "Hello one 1")]
    assert (await of(client.chat.completions.delete(made.id))).deleted
    with refused(openai.NotFoundError):
        await of(client.chat.completions.retrieve(made.id))


async def test_what_was_not_to_be_stored_is_not_there(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    made = await of(client.chat.completions.create(model="plain", messages=messages))
    with refused(openai.NotFoundError):
        await of(client.chat.completions.retrieve(made.id))
