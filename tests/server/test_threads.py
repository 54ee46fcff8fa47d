"""Threads: made, listed, changed, and gone with all that is on them."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from fakes.app_server import Serving, with_run
from fakes.kept_runs import new_run
from retinue import Agent, PromptModel
from retinue.store.run_queries import insert_run
from retinue.store.tables import events, messages, runs


def test_a_thread_comes_back_as_it_was_made(on_both: Serving) -> None:
    given: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        "metadata": {"user": "1"},
        "tool_resources": {"file_search": {"vector_store_ids": ["vs_1"]}},
    }
    made = on_both.ask("POST", "/v1/threads", given).body
    assert made == {
        "id": made["id"],
        "object": "thread",
        "created_at": made["created_at"],
        "metadata": given["metadata"],
        "tool_resources": given["tool_resources"],
    }
    assert on_both.ask("GET", f"/v1/threads/{made['id']}").body == made
    said = on_both.ask("GET", f"/v1/threads/{made['id']}/messages?order=asc").body["data"]
    assert [(one["role"], one["content"][0]["text"]["value"]) for one in said] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]


@pytest.mark.parametrize("body", [None, {}, {"messages": None, "metadata": None, "tool_resources": None}])
def test_an_empty_thread(served: Serving, body: Any) -> None:
    made = served.ask("POST", "/v1/threads", body).body
    assert (made["metadata"], made["tool_resources"]) == ({}, None)


def test_a_change_replaces_what_is_sent(served: Serving) -> None:
    id_ = served.ask("POST", "/v1/threads", {"metadata": {"a": "1", "b": "2"}}).body["id"]
    resources = {"code_interpreter": {"file_ids": ["file-1"]}}
    assert served.ask("POST", f"/v1/threads/{id_}", {"metadata": {"c": "3"}}).body["metadata"] == {"c": "3"}
    assert served.ask("POST", f"/v1/threads/{id_}", {"tool_resources": resources}).body["metadata"] == {"c": "3"}
    assert served.ask("GET", f"/v1/threads/{id_}").body["tool_resources"] == resources
    assert served.ask("POST", f"/v1/threads/{id_}", {"metadata": None}).body["metadata"] == {}


def test_threads_are_listed(served: Serving) -> None:
    made = [served.ask("POST", "/v1/threads").body for _ in range(3)]
    page = served.ask("GET", "/v1/threads?limit=2").body
    assert (page["data"], page["has_more"]) == ([made[2], made[1]], True)


def test_with_a_thread_goes_all_that_is_on_it(on_both: Serving) -> None:
    thread, run = with_run(on_both)
    kept, _ = with_run(on_both)
    deleted = {"id": thread, "object": "thread.deleted", "deleted": True}
    assert on_both.ask("DELETE", f"/v1/threads/{thread}").body == deleted
    for path in ("", "/messages", "/runs", f"/runs/{run}", f"/runs/{run}/steps", "/messages/msg_x"):
        said = on_both.ask("GET", f"/v1/threads/{thread}{path}")
        assert (said.status, said.error["message"]) == (404, f"No thread found with id '{thread}'.")
    with on_both.database.engine.connect() as connection:
        for query in (
            select(runs).where(runs.c.thread_id == thread),
            select(messages).where(messages.c.thread_id == thread),
            select(events).where(events.c.run_id == run),
        ):
            assert connection.execute(query).all() == []
    assert len(on_both.ask("GET", f"/v1/threads/{kept}/messages").body["data"]) == 1


def test_ids_that_no_database_can_hold_are_unknown(on_both: Serving) -> None:
    long = "x" * 9_000
    for path in ("%00", "a%00b/messages", "%ff", long, "%F0%9F%98%80", "%20", "..%2f", "'--", "a?after=%00"):
        said = on_both.ask("GET", f"/v1/threads/{path}")
        assert (said.status, said.error["type"]) == (404, "invalid_request_error")
    thread = on_both.ask("POST", "/v1/threads").body["id"]
    for query in (f"after={long}", "before=%ff", "run_id='"):
        assert on_both.ask("GET", f"/v1/threads/{thread}/messages?{query}").body["data"] == []


def test_a_thread_holds_one_run(on_both: Serving) -> None:
    thread, _ = with_run(on_both)
    second = new_run("run_2", tenant="default", thread_id=thread)
    refused = (IntegrityError, sqlite3.IntegrityError)
    with pytest.raises(refused), on_both.database.engine.begin() as connection:
        insert_run(connection, second)


def test_what_runs_on_a_thread_that_is_deleted_ends_for_who_watches(tmp_path: Path) -> None:
    slow = Agent(PromptModel(script=[{"say": "At last.", "delay": 60}]), name="slow")
    with Serving(tmp_path, {"slow": slow}) as served:
        assistant = served.ask("POST", "/v1/assistants", {"model": "slow"}).body["id"]
        thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Hi"}]}).body["id"]
        request = {"assistant_id": assistant, "stream": True}
        with ThreadPoolExecutor(1) as others:
            watching = others.submit(served.ask, "POST", f"/v1/threads/{thread}/runs", request)
            while not served.ask("GET", f"/v1/threads/{thread}/runs").body["data"]:
                pass
            assert served.ask("DELETE", f"/v1/threads/{thread}").status == 200
            said = watching.result(timeout=30).text
        assert "event: thread.run.cancelled\n" in said
        assert said.endswith("data: [DONE]\n\n")
