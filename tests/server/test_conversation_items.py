"""Conversations beside runs: what a run brings, and what is refused while one is under way."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert

from fakes.app_server import Serving
from fakes.kept_runs import new_run
from retinue.server.conversations.items import append_items, items_of
from retinue.server.http.api_errors import ApiError
from retinue.store.processes import show_life
from retinue.store.run_queries import insert_run
from retinue.store.tables import conversations
from retinue.store.tenant_view import TenantView

HELLO = {"role": "user", "content": "Hello"}


def conversation(served: Serving) -> str:
    made = served.ask("POST", "/v1/conversations", {"items": [{**HELLO, "id": "msg_first"}]})
    return str(made.body["id"])


def test_a_run_brings_what_is_not_there_yet(on_both: Serving) -> None:
    id_ = conversation(on_both)
    with on_both.database.engine.begin() as connection:
        added = append_items(connection, TenantView("default"), id_, [{**HELLO, "id": "msg_first"}, HELLO], "run_x")
        assert [one["content"] for one in added] == [[{"type": "input_text", "text": "Hello"}]]
        assert [one["id"] for one in items_of(connection, TenantView("default"), id_)] == ["msg_first", added[0]["id"]]
        assert append_items(connection, TenantView("default"), "conv_deleted", [HELLO], "run_x") == []


@pytest.mark.parametrize(("status", "refused"), [("in_progress", True), ("queued", True), ("requires_action", False)])
def test_nothing_is_changed_while_a_run_is_under_way(on_both: Serving, status: str, refused: bool) -> None:
    id_ = conversation(on_both)
    run = new_run(f"run_{id_}", tenant="default", thread_id=id_, status=status, agent="agent-1", driver="another")
    with on_both.database.engine.begin() as connection:
        show_life(connection, "another")  # which has the run, so that this one lets it be
        insert_run(connection, run)
    asked = [
        on_both.ask("POST", f"/v1/conversations/{id_}/items", {"items": [HELLO]}),
        on_both.ask("DELETE", f"/v1/conversations/{id_}/items/msg_first"),
        on_both.ask("DELETE", f"/v1/conversations/{id_}"),
    ]
    assert [answer.status for answer in asked] == [400 if refused else 200] * 3
    if refused:
        assert asked[0].error == {
            "message": "Another process is currently operating on this conversation. Please retry in a few seconds.",
            "type": "invalid_request_error",
            "param": "conversation",
            "code": "conversation_locked",
        }


def test_what_belongs_to_others_is_not_there(on_both: Serving) -> None:
    """Nor is the id of an item taken, or to be referred to, because somebody else has it."""
    id_ = conversation(on_both)
    other = {"tenant": "other", "id": f"conv_of_{id_[5:]}", "created_at": 0, "body": {"metadata": {}}}
    with on_both.database.engine.begin() as connection:
        connection.execute(insert(conversations).values(**other))
        with pytest.raises(ApiError, match=r"Conversation with id 'conv_\w+' not found\."):
            append_items(connection, TenantView("other"), id_, [HELLO])
        with pytest.raises(ApiError, match=r"Item with id 'msg_first' not found\."):
            append_items(
                connection, TenantView("other"), str(other["id"]), [{"type": "item_reference", "id": "msg_first"}]
            )
        assert append_items(connection, TenantView("other"), str(other["id"]), [{**HELLO, "id": "msg_first"}])


def test_every_method_of_a_path_is_told(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        answer = served.ask("PATCH", "/v1/conversations/conv_x", {})
        assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, POST")
        assert served.ask("PUT", "/v1/threads", {}).headers["allow"] == "GET, POST"
        assert served.ask("PUT", "/v1/threads/runs", {}).headers["allow"] == "POST"
