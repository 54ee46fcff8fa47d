"""Conversations and their items through the SDK."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from fakes import node
from fakes.sdk import MARKS, each, of, refused
from fakes.served import Served

pytestmark = MARKS

SAID: Any = [
    {"role": "user", "content": "What is the weather in Paris?"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I need a tool."}]},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"location": "Paris"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "21 degrees"},
    {"type": "message", "role": "assistant", "content": "It is 21 degrees.", "phase": "final_answer"},
]
# an item of each other type, and how its id begins
OTHERS: Any = [
    ({"type": "custom_tool_call", "call_id": "call_2", "name": "say", "input": "Hello"}, "ctc"),
    ({"type": "custom_tool_call_output", "call_id": "call_2", "output": "Said."}, "ctco"),
    ({"type": "mcp_list_tools", "server_label": "own", "tools": [{"name": "book", "input_schema": {}}]}, "mcpl"),
    ({"type": "mcp_approval_request", "server_label": "own", "name": "book", "arguments": "{}"}, "mcpr"),
    ({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}, "mcpa"),
    ({"type": "mcp_call", "server_label": "own", "name": "book", "arguments": "{}", "output": "Booked."}, "mcp"),
    ({"type": "file_search_call", "queries": ["tea"], "results": [{"file_id": "file-1", "score": 0.5}]}, "fs"),
    ({"type": "code_interpreter_call", "code": "1", "container_id": "c", "outputs": []}, "ci"),
    (
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_image", "image_url": "https://example.org/a.png"}],
        },
        "fco",
    ),
    ({"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}, "msg"),
    ({"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]}, "msg"),
    ({"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}, "msg"),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, "msg"),
]


def gone(id_: str) -> str:
    return f"Conversation with id '{id_}' not found."


async def test_a_conversation_is_made_changed_and_deleted_with_its_items(client: Any) -> None:
    made = await of(client.conversations.create(metadata={"place": "kitchen"}, items=SAID))
    assert (made.id[:5], made.object, made.metadata) == ("conv_", "conversation", {"place": "kitchen"})
    assert await of(client.conversations.retrieve(made.id)) == made
    changed = await of(client.conversations.update(made.id, metadata={"place": "hall"}))
    assert changed == made.model_copy(update={"metadata": {"place": "hall"}})
    (first, *_) = [one async for one in each(client.conversations.items.list(made.id, order="asc"))]
    deleted = await of(client.conversations.delete(made.id))
    assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "conversation.deleted", True)
    calls: list[Any] = [
        lambda: client.conversations.retrieve(made.id),
        lambda: client.conversations.update(made.id, metadata={}),
        lambda: client.conversations.delete(made.id),
        lambda: client.conversations.items.list(made.id),
        lambda: client.conversations.items.create(made.id, items=SAID),
        lambda: client.conversations.items.retrieve(first.id, conversation_id=made.id),
        lambda: client.conversations.items.delete(first.id, conversation_id=made.id),
    ]
    for call in calls:
        with refused(openai.NotFoundError, gone(made.id)):
            await of(call())


async def test_an_empty_conversation(client: Any) -> None:
    made = await of(client.conversations.create())
    assert made.metadata == {}
    assert [one async for one in each(client.conversations.items.list(made.id))] == []


async def test_items_get_what_is_missing(client: Any) -> None:
    made = await of(client.conversations.create(items=SAID))
    found = [one async for one in each(client.conversations.items.list(made.id, order="asc"))]
    kinds = ["message", "reasoning", "function_call", "function_call_output", "message"]
    assert [one.type for one in found] == kinds
    assert [one.id.partition("_")[0] for one in found] == ["msg", "rs", "fc", "fco", "msg"]
    assert [getattr(one, "status", None) for one in found] == ["completed", None, *["completed"] * 3]
    asked, _, call, output, answer = found
    assert (asked.role, [part.to_dict() for part in asked.content]) == (
        "user",
        [{"type": "input_text", "text": "What is the weather in Paris?"}],
    )
    assert (call.call_id, call.name, call.arguments) == ("call_1", "get_weather", '{"location": "Paris"}')
    assert (output.call_id, output.output) == ("call_1", "21 degrees")
    assert [part.to_dict() for part in answer.content] == [
        {"type": "output_text", "text": "It is 21 degrees.", "annotations": [], "logprobs": []}
    ]
    assert answer.phase == "final_answer"


@pytest.mark.parametrize(("item", "prefix"), OTHERS)
async def test_an_item_of_each_type(client: Any, item: Any, prefix: str) -> None:
    made = await of(client.conversations.create())
    (added,) = (await of(client.conversations.items.create(made.id, items=[item]))).data
    assert added.id.startswith(f"{prefix}_")
    assert await of(client.conversations.items.retrieve(added.id, conversation_id=made.id)) == added


async def test_items_are_added_and_taken_away(client: Any) -> None:
    made = await of(client.conversations.create(items=SAID[:1]))
    own = {"id": "msg_own", "type": "message", "role": "user", "status": "incomplete", "content": "Two"}
    added = await of(client.conversations.items.create(made.id, items=[own, *SAID[2:4]]))
    assert (added.object, added.has_more, added.first_id, added.last_id) == (
        "list",
        False,
        "msg_own",
        added.data[-1].id,
    )
    assert [one.type for one in added.data] == ["message", "function_call", "function_call_output"]
    assert added.data[0].status == "incomplete"
    assert await of(client.conversations.items.delete("msg_own", conversation_id=made.id)) == made
    with refused(openai.NotFoundError, "Item with id 'msg_own' not found."):
        await of(client.conversations.items.retrieve("msg_own", conversation_id=made.id))
    assert len([one async for one in each(client.conversations.items.list(made.id))]) == 3


async def test_the_same_item_is_in_a_conversation_once_but_may_be_in_several(client: Any) -> None:
    one, other = await of(client.conversations.create()), await of(client.conversations.create())
    item: Any = {"id": "msg_twice", "role": "user", "content": "One"}
    first = await of(client.conversations.items.create(one.id, items=[item]))
    again = "Duplicate item found with id msg_twice. Remove duplicate items from your input and try again."
    for given in ([item], [{"type": "item_reference", "id": "msg_twice"}]):
        with refused(openai.BadRequestError, again, param="items"):
            await of(client.conversations.items.create(one.id, items=given))
    second = await of(
        client.conversations.items.create(other.id, items=[{"type": "item_reference", "id": "msg_twice"}])
    )
    assert second.data == first.data
    await of(client.conversations.items.delete("msg_twice", conversation_id=one.id))
    assert await of(client.conversations.items.retrieve("msg_twice", conversation_id=other.id)) == second.data[0]
    with refused(openai.NotFoundError, "Item with id 'msg_never' not found.", param="items"):
        await of(client.conversations.items.create(one.id, items=[{"type": "item_reference", "id": "msg_never"}]))


async def test_items_come_in_pages_the_newest_first(client: Any) -> None:
    made = await of(client.conversations.create())
    said: Any = [{"role": "user", "content": str(number)} for number in range(7)]
    ids = [one.id for one in (await of(client.conversations.items.create(made.id, items=said))).data]
    items = client.conversations.items
    assert [one.id async for one in each(items.list(made.id, limit=2))] == ids[::-1]
    assert [one.id async for one in each(items.list(made.id, limit=3, order="asc"))] == ids
    page = await of(items.list(made.id, limit=2, after=ids[4]))
    assert ([one.id for one in page.data], page.has_more, page.last_id) == ([ids[3], ids[2]], True, ids[2])


async def test_what_a_tool_found_is_shown_to_who_asks_for_it(client: Any) -> None:
    made = await of(client.conversations.create(items=[OTHERS[6][0]]))
    (bare,) = (await of(client.conversations.items.list(made.id))).data
    (full,) = (await of(client.conversations.items.list(made.id, include=["file_search_call.results"]))).data
    assert (bare.results, full.results[0].file_id) == (None, "file-1")


LONG = "x" * 65
TYPES = (
    "'message', 'function_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output', 'reasoning', "
    "'item_reference', 'mcp_list_tools', 'mcp_call', 'mcp_approval_request', 'mcp_approval_response', "
    "'file_search_call', 'code_interpreter_call', and 'compaction'"
)
PARTS = "'input_text', 'input_image', 'output_text', 'refusal', 'input_file', and 'input_audio'"
WRONG: Any = [
    ({}, "Missing required parameter: 'items[0].type'.", "missing_required_parameter", "items[0].type"),
    ({"type": "x"}, f"Invalid value: 'x'. Supported values are: {TYPES}.", "invalid_value", "items[0].type"),
    (7, "Invalid type for 'items[0]': expected an object, but got an integer instead.", "invalid_type", "items[0]"),
    (
        {"role": "user"},
        "Missing required parameter: 'items[0].content'.",
        "missing_required_parameter",
        "items[0].content",
    ),
    (
        {"role": "tool", "content": "x"},
        "Invalid value: 'tool'. Supported values are: 'user', 'assistant', 'system', and 'developer'.",
        "invalid_value",
        "items[0].role",
    ),
    (
        {"role": "user", "content": 7},
        "Invalid type for 'items[0].content': expected one of a string or array of objects, but got an integer "
        "instead.",
        "invalid_type",
        "items[0].content",
    ),
    (
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        f"Invalid value: 'text'. Supported values are: {PARTS}.",
        "invalid_value",
        "items[0].content[0].type",
    ),
    (
        {"type": "function_call", "name": "f", "arguments": "{}"},
        "Missing required parameter: 'items[0].call_id'.",
        "missing_required_parameter",
        "items[0].call_id",
    ),
    (
        {"role": "user", "content": "x", "id": LONG},
        "Invalid 'items[0].id': string too long. Expected a string with maximum length 64, but got a string with "
        "length 65 instead.",
        "string_above_max_length",
        "items[0].id",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("item", "message", "code", "param"), WRONG)
async def test_an_item_that_is_none(client: Any, item: Any, message: str, code: str, param: str) -> None:
    with refused(openai.BadRequestError, message, code, param):
        await of(client.conversations.create(items=[item]))


async def test_how_many_items_at_a_time(client: Any) -> None:
    many: Any = [{"role": "user", "content": "x"}] * 21
    made = await of(client.conversations.create(items=many[:20]))
    words = "array too long. Expected an array with maximum length 20, but got an array with length 21 instead"
    calls: list[Any] = [
        lambda: client.conversations.create(items=many),
        lambda: client.conversations.items.create(made.id, items=many),
    ]
    for call in calls:
        with refused(openai.BadRequestError, f"Invalid 'items': {words}.", "array_above_max_length", "items"):
            await of(call())
    with refused(openai.BadRequestError, code="empty_array", param="items"):
        await of(client.conversations.items.create(made.id, items=[]))


async def test_an_item_is_not_found_in_another_conversation(client: Any) -> None:
    one = await of(client.conversations.create(items=SAID))
    other = await of(client.conversations.create())
    (first, *_) = (await of(client.conversations.items.list(one.id))).data
    calls: list[Any] = [client.conversations.items.retrieve, client.conversations.items.delete]
    for call in calls:
        with refused(openai.NotFoundError, f"Item with id '{first.id}' not found."):
            await of(call(first.id, conversation_id=other.id))


async def test_conversations_survive_a_kill(deployed_apart: Served) -> None:
    with deployed_apart.client() as client:
        made = client.conversations.create(items=SAID)
        before = list(client.conversations.items.list(made.id))
        deployed_apart.kill()
        deployed_apart.restart()
        assert list(client.conversations.items.list(made.id)) == before


def test_conversations_through_the_node_sdk(pytestconfig: pytest.Config, deployed: Served) -> None:
    assert pytestconfig.cache is not None
    script = node.project(pytestconfig.cache) / "conversations.mjs"
    assert json.loads(node.run(script, {"OPENAI_BASE_URL": deployed.url, "OPENAI_API_KEY": deployed.key})) == {
        "update": {"place": "hall"},
        "added": [["function_call", "completed"], ["function_call_output", "completed"]],
        "listed": ["message", "function_call", "function_call_output"],
        "same": True,
        "afterDelete": True,
        "deleted": True,
        "refused": {"kind": "NotFoundError", "same": True},
    }
