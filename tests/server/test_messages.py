"""Messages: what was said on a thread, in the shapes in which it is answered."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from fakes.app_server import Serving, upload, with_run
from retinue.store.tables import messages, runs


def thread_of(served: Serving) -> str:
    id_: str = served.ask("POST", "/v1/threads").body["id"]
    return id_


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": {"value": value, "annotations": []}}


def test_a_message_comes_back_as_it_was_made(on_both: Serving) -> None:
    thread = thread_of(on_both)
    file = upload(on_both, "notes.md", b"Hi").body["id"]
    attachments = [{"file_id": file, "tools": [{"type": "file_search"}]}]
    given = {"role": "user", "content": "Hi \u2028 \u0000 😀", "metadata": {"k": "v"}, "attachments": attachments}
    made = on_both.ask("POST", f"/v1/threads/{thread}/messages", given).body
    assert made == {
        "id": made["id"],
        "object": "thread.message",
        "created_at": made["created_at"],
        "thread_id": thread,
        "status": "completed",
        "incomplete_details": None,
        "completed_at": made["created_at"],
        "incomplete_at": None,
        "role": "user",
        "content": [text("Hi \u2028 \u0000 😀")],
        "assistant_id": None,
        "run_id": None,
        "attachments": attachments,
        "metadata": {"k": "v"},
    }
    assert on_both.ask("GET", f"/v1/threads/{thread}/messages/{made['id']}").body == made


@pytest.mark.parametrize(
    ("content", "answered"),
    [
        ("Hi", [text("Hi")]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [text("a"), text("b")]),
        (
            [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}],
            [{"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "auto"}}],
        ),
    ],
)
def test_content(served: Serving, content: Any, answered: Any) -> None:
    thread = thread_of(served)
    given = {"role": "assistant", "content": content}
    assert served.ask("POST", f"/v1/threads/{thread}/messages", given).body["content"] == answered


def test_an_image_by_its_file(served: Serving) -> None:
    file = upload(served, "a.png", b"...").body["id"]
    thread = thread_of(served)

    def parts(id_: str) -> Any:
        return [{"type": "image_file", "image_file": {"file_id": id_, "detail": "low"}}]

    given = {"role": "user", "content": parts(file)}
    assert served.ask("POST", f"/v1/threads/{thread}/messages", given).body["content"] == parts(file)
    assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
    message = {"role": "user", "content": parts("file-unknown")}
    waiting, _ = with_run(served)
    more = {"assistant_id": assistant, "additional_messages": [message]}
    for path, body in (
        (f"/v1/threads/{thread}/messages", message),
        ("/v1/threads", {"messages": [message]}),
        (f"/v1/threads/{thread}/runs", more),
        (f"/v1/threads/{waiting}/runs", {**more, "multitask_strategy": "enqueue"}),
    ):
        refused = served.ask("POST", path, body)
        assert refused.status == 400, path
        assert refused.error["message"] == "No such File object: file-unknown"
        assert refused.error["param"] == "content.image_file.file_id"


def test_opeas_messages_name_their_assistant(served: Serving) -> None:
    given = {"role": "user", "content": "Hi", "assistant_id": "asst_1"}
    assert served.ask("POST", f"/v1/threads/{thread_of(served)}/messages", given).body["assistant_id"] == "asst_1"


def test_metadata_are_replaced(served: Serving) -> None:
    thread = thread_of(served)
    given = {"role": "user", "content": "Hi", "metadata": {"a": "1"}}
    where = f"/v1/threads/{thread}/messages/" + served.ask("POST", f"/v1/threads/{thread}/messages", given).body["id"]
    assert served.ask("POST", where, {}).body["metadata"] == {"a": "1"}
    assert served.ask("POST", where, {"metadata": {"b": "2"}, "content": "no"}).body["metadata"] == {"b": "2"}
    assert served.ask("POST", where, {"metadata": None}).body["metadata"] == {}
    assert served.ask("GET", where).body["content"] == [text("Hi")]


def test_one_that_is_deleted_is_gone_and_the_others_stay(served: Serving) -> None:
    thread = thread_of(served)
    given = {"role": "user", "content": "Hi"}
    first, second = (served.ask("POST", f"/v1/threads/{thread}/messages", given).body["id"] for _ in range(2))
    where = f"/v1/threads/{thread}/messages/{first}"
    assert served.ask("DELETE", where).body == {"id": first, "object": "thread.message.deleted", "deleted": True}
    said = served.ask("GET", where)
    assert (said.status, said.error["message"]) == (404, f"No message found with id '{first}'.")
    assert [one["id"] for one in served.ask("GET", f"/v1/threads/{thread}/messages").body["data"]] == [second]


def test_a_message_is_on_its_own_thread_only(served: Serving) -> None:
    thread, other = thread_of(served), thread_of(served)
    id_ = served.ask("POST", f"/v1/threads/{thread}/messages", {"role": "user", "content": "Hi"}).body["id"]
    for method in ("GET", "POST", "DELETE"):
        said = served.ask(method, f"/v1/threads/{other}/messages/{id_}", {} if method == "POST" else None)
        assert (said.status, said.error["message"]) == (404, f"No message found with id '{id_}'.")
    assert served.ask("GET", f"/v1/threads/{thread}/messages/{id_}").status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_messages_of_no_thread(served: Serving, method: str) -> None:
    given = {"role": "user", "content": "Hi"} if method == "POST" else None
    said = served.ask(method, "/v1/threads/thread_x/messages", given)
    assert (said.status, said.error["message"]) == (404, "No thread found with id 'thread_x'.")


@pytest.mark.parametrize("status", ["queued", "in_progress", "requires_action", "cancelling"])
def test_nothing_is_added_while_a_run_is_active(on_both: Serving, status: str) -> None:
    thread, run = with_run(on_both, status)
    given = {"role": "user", "content": "And?"}
    said = on_both.ask("POST", f"/v1/threads/{thread}/messages", given)
    assert (said.status, said.error["code"]) == (400, None)
    assert said.error["message"] == f"Can't add messages to {thread} while a run {run} is active."
    with on_both.database.engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(status="completed", holds=False))
    assert on_both.ask("POST", f"/v1/threads/{thread}/messages", given).status == 200


def test_those_of_a_run(served: Serving) -> None:
    thread, run = with_run(served, "completed", holds=False)
    id_ = served.ask("POST", f"/v1/threads/{thread}/messages", {"role": "assistant", "content": "Hello"}).body["id"]
    with served.database.engine.begin() as connection:
        connection.execute(update(messages).where(messages.c.id == id_).values(run_id=run))
    page = served.ask("GET", f"/v1/threads/{thread}/messages?run_id={run}").body
    assert [(one["id"], one["run_id"]) for one in page["data"]] == [(id_, run)]
    empty = served.ask("GET", f"/v1/threads/{thread}/messages?run_id=run_x").body
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_many_in_one_second_keep_their_order(on_both: Serving) -> None:
    said = [{"role": "user", "content": str(number)} for number in range(45)]
    thread = on_both.ask("POST", "/v1/threads", {"messages": said}).body["id"]
    found: list[str] = []
    page = {"has_more": True, "last_id": ""}
    while page["has_more"]:
        after = f"&after={page['last_id']}" if page["last_id"] else ""
        page = on_both.ask("GET", f"/v1/threads/{thread}/messages?order=asc{after}").body
        found += [one["content"][0]["text"]["value"] for one in page["data"]]
    assert found == [str(number) for number in range(45)]
