"""What was said is deleted a while after the last word, if the operator wants that."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import update

from fakes.app_server import Serving, answering
from fakes.until import until
from retinue.server.context import Options
from retinue.store.tables import conversations, items, messages, runs, threads

SAID = {"messages": [{"role": "user", "content": "Hi"}]}
KEPT = 1_000  # seconds


def test_threads_and_conversations_without_news_are_deleted_with_all_of_it(tmp_path: Path) -> None:
    with Serving(tmp_path, {"agent-1": answering("agent-1", "Paris.", "Rome.")}) as served:

        def made(path: str, given: object) -> str:
            return str(served.ask("POST", path, given).body["id"])

        assistant = made("/v1/assistants", {"model": "agent-1"})
        silent, talking, running, young = (made("/v1/threads", SAID) for _ in range(4))
        lost, going_on = (made("/v1/conversations", {"items": [{"role": "user", "content": "Hi"}]}) for _ in range(2))
        run = made(f"/v1/threads/{silent}/runs", {"assistant_id": assistant})
        waits = made(f"/v1/threads/{running}/runs", {"assistant_id": assistant})
        until(lambda: served.ask("GET", f"/v1/threads/{running}/runs/{waits}").body["status"] == "completed")
        until(lambda: served.ask("GET", f"/v1/threads/{silent}/runs/{run}").body["status"] == "completed")
        with served.database.engine.begin() as connection:
            for table in (threads, messages, runs, conversations, items):
                connection.execute(update(table).values(created_at=table.c.created_at - KEPT - 1))
            connection.execute(update(threads).where(threads.c.id == young).values(created_at=2**31))
            connection.execute(update(runs).where(runs.c.id == waits).values(status="requires_action", holds=True))
        made(f"/v1/threads/{talking}/messages", SAID["messages"][0])
        served.ask("POST", f"/v1/conversations/{going_on}/items", {"items": [{"role": "user", "content": "Yes"}]})
    with Serving(tmp_path, options=Options(thread_retention=KEPT)) as served:
        until(lambda: served.ask("GET", f"/v1/threads/{silent}").status == 404)
        until(lambda: served.ask("GET", f"/v1/conversations/{lost}").status == 404)
        with served.database.engine.connect() as connection:
            assert connection.execute(messages.select().where(messages.c.thread_id == silent)).all() == []
            assert connection.execute(items.select().where(items.c.conversation_id == lost)).all() == []
            assert connection.execute(runs.select().where(runs.c.id == run)).all() == []
        for thread in (talking, running, young):
            assert served.ask("GET", f"/v1/threads/{thread}").status == 200
        assert served.ask("GET", f"/v1/conversations/{going_on}").status == 200
