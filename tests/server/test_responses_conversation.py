"""Responses in a conversation: they are given what is in it, leave behind what was said, and come one at a time. And
what else needs an agent of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from fakes.app_server import Serving
from fakes.kept_runs import new_run
from fakes.responses import TOOL
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.server.conversations.items import items_of
from retinue.server.http.objects import new_id
from retinue.store.run_queries import insert_run
from retinue.store.tables import conversations, runs
from retinue.store.tenant_view import TenantView
from retinue.strategies.tool_calling import ToolCalling

SCRIPT: Any = [
    {"when": "weather", "call": {"tool": "get_weather", "input": {"location": "Paris"}}},
    {"when": "21 degrees", "say": "It is warm."},
    {"when": "book", "call": {"tool": "book", "input": {"place": "Nopi"}}},
    {"when": "for ever", "error": "hang"},
    {"when": "round", "call": {"tool": "turn", "input": {"by": 1}}},
    {"when": ".*", "say": "Hello."},
]
LOCKED = {
    "message": "Another process is currently operating on this conversation. Please retry in a few seconds.",
    "type": "invalid_request_error",
    "param": "conversation",
    "code": "conversation_locked",
}


def book(place: str) -> str:
    """Books a table."""
    return f"{place} is booked"


def turn(by: int) -> str:
    """Turns round."""
    return f"round by {by}"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agent = Agent(PromptModel(script=SCRIPT), strategy=ToolCalling(), name="a")
    agent.add_tool(book, approval=True)
    agent.add_tool(turn)
    folder: Path = tmp_path_factory.mktemp("served")
    with Serving(folder, {"a": agent}) as server:
        yield server


@pytest.fixture
def conversation(serving: Serving) -> str:
    id_ = new_id("conv")
    values = {"tenant": "default", "id": id_, "created_at": 1, "body": {"metadata": {}}}
    with serving.database.engine.begin() as connection:
        connection.execute(insert(conversations).values(values))
    return id_


def items(serving: Serving, conversation: str) -> list[Any]:
    with serving.database.engine.begin() as connection:
        return items_of(connection, TenantView("default"), conversation)


def in_short(kept: list[Any]) -> list[str]:
    return [
        f"{item['role']}: {item['content'][0]['text']}" if item["type"] == "message" else item["type"] for item in kept
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_input_and_output_are_kept(serving: Serving, conversation: str, stream: bool) -> None:
    asked = {"input": "Hi", "conversation": conversation, "stream": stream}
    assert serving.ask("POST", "/v1/responses", asked).status == 200
    said = serving.ask("POST", "/v1/responses", {"input": "Hi again", "conversation": {"id": conversation}}).body
    assert said["conversation"] == {"id": conversation}
    kept = items(serving, conversation)
    assert in_short(kept) == ["user: Hi", "assistant: Hello.", "user: Hi again", "assistant: Hello."]
    assert kept[-1] == said["output"][0]
    assert all(item["status"] == "completed" for item in kept)
    assert len({item["id"] for item in kept}) == 4


def test_what_is_in_it_is_told(serving: Serving, conversation: str) -> None:
    first = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": conversation}).body
    second = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": conversation}).body
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


def test_a_tools_round_trip_leaves_all_of_it(serving: Serving, conversation: str) -> None:
    asked = {"conversation": conversation, "tools": [TOOL]}
    first = serving.ask("POST", "/v1/responses", {**asked, "input": "The weather?"}).body
    assert in_short(items(serving, conversation)) == ["user: The weather?", "function_call"]
    (call,) = first["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "21 degrees"}
    refused = serving.ask("POST", "/v1/responses", {**asked, "input": "Hi"})
    assert refused.error["message"] == f"No tool output found for function call {call['call_id']}."
    second = serving.ask("POST", "/v1/responses", {**asked, "input": [output]}).body
    assert second["output"][0]["content"][0]["text"] == "It is warm."
    assert in_short(items(serving, conversation)) == [
        "user: The weather?", "function_call", "function_call_output", "assistant: It is warm.",
    ]  # fmt: skip


def test_one_at_a_time(serving: Serving, conversation: str) -> None:
    asked = {"input": "for ever", "conversation": conversation, "background": True}
    first = serving.ask("POST", "/v1/responses", asked).body
    refused = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": conversation})
    assert (refused.status, refused.error) == (400, LOCKED)
    until(lambda: serving.ask("GET", f"/v1/responses/{first['id']}").body["status"] == "in_progress")
    assert serving.ask("POST", f"/v1/responses/{first['id']}/cancel").body["status"] == "cancelled"
    assert items(serving, conversation) == []
    assert serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": conversation}).status == 200


def test_an_approval_that_nobody_gives_does_not_hold_it(serving: Serving, conversation: str) -> None:
    first = serving.ask("POST", "/v1/responses", {"input": "book one", "conversation": conversation}).body
    assert [item["type"] for item in first["output"]] == ["mcp_approval_request"]
    second = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": conversation})
    assert second.status == 200
    assert serving.ask("GET", f"/v1/responses/{first['id']}").body == first


def test_one_that_is_not_there_or_somebody_elses(serving: Serving) -> None:
    id_ = new_id("conv")
    run = new_run(new_id("run"), tenant="other", thread_id=id_, status="requires_action", kind="response", agent="a")
    with serving.database.engine.begin() as connection:
        connection.execute(insert(conversations).values(tenant="other", id=id_, created_at=1, body={}))
        insert_run(connection, run._replace(request={"model": "a", "tools": []}))
    unknown = f"conv_{'0' * 24}"
    absent = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": unknown})
    theirs = serving.ask("POST", "/v1/responses", {"input": "Hi", "conversation": id_})
    assert (absent.status, theirs.status) == (404, 404)
    assert theirs.text == absent.text.replace(unknown, id_)
    with serving.database.engine.begin() as connection:
        assert connection.execute(select(runs.c.status).where(runs.c.id == run.id)).scalar() == "requires_action"


def test_tools_are_used_as_often_as_they_may_be(serving: Serving) -> None:
    said = serving.ask(
        "POST", "/v1/responses", {"input": "round", "max_tool_calls": 2, "stream": True, "include": ["mcp_call"]}
    ).text
    assert said.count("event: response.mcp_call.in_progress") == 2
