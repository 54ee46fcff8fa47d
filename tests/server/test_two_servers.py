"""Two servers on one PostgreSQL database: of two requests at once one is first, and the other is told what it would be
told a moment later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from fakes.app_server import Answer, Serving, upload
from fakes.at_once import at_once
from fakes.kept_runs import calling
from fakes.postgres import Postgres
from fakes.until import until
from retinue import Agent, tool
from retinue.limits.rate import Bounds, KeyLimits
from retinue.store.tables import events, runs, threads, vector_store_files

pytestmark = pytest.mark.filterwarnings(  # FastAPI silences it, but for one thread at a time
    "ignore::pydantic.warnings.UnsupportedFieldAttributeWarning"
)
CHAT: Any = {"model": "agent-1", "messages": [{"role": "user", "content": "Begin"}]}
THREAD: Any = {"messages": CHAT["messages"]}
HELD = threading.Event()


def working() -> Agent:
    """An agent that works until the tests are over."""

    @tool(effects="read", timeout=90)
    def work() -> str:
        """Work."""
        HELD.wait(60)
        return "worked 1"

    return calling([work], {"tool": "work", "input": {}})


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, a_postgres: Postgres) -> Iterator[Two]:
    url = a_postgres.database()
    first, second = (
        Serving(tmp_path_factory.mktemp("served"), {"agent-1": working()}, url=url, limits=KeyLimits()) for _ in "ab"
    )
    with first, second:
        yield Two(url, first, second)
        HELD.set()


class Two:
    """The servers, and the database's URL."""

    def __init__(self, url: str, *servers: Serving) -> None:
        self.url = url
        self.servers = servers

    def ask(self, *given: Any, **more: Any) -> Answer:
        """Ask the first one."""
        return self.servers[0].ask(*given, **more)

    def both(self, table: str, *given: Any, **more: Any) -> list[Answer]:
        """Ask both at once; nobody may write to `table` until both wait."""
        return self.each(table, *(partial(one.ask, *given, **more) for one in self.servers))

    def each(self, table: str, *works: Callable[[], Answer]) -> list[Answer]:
        """What they answer, by status."""
        return sorted(at_once(self.url, table, works), key=lambda said: said.status)

    def counted(self, table: Any, *where: Any) -> int:
        with self.servers[0].database.engine.connect() as connection:
            return connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one()

    def made(self, path: str, given: Any = None) -> str:
        """The id of a new object."""
        return str(self.ask("POST", path, given or {}).body["id"])


def test_an_idempotency_key_makes_one_run(two: Two) -> None:
    given = {"assistant_id": two.made("/v1/assistants", {"model": "agent-1"}), "thread": THREAD}
    before = two.counted(runs)
    said = two.both("requests", "POST", "/v1/threads/runs", given, headers={"Idempotency-Key": "one"})
    assert [one.status for one in said] == [200, 200]
    assert said[0].text == said[1].text
    assert sorted(one.headers.get("idempotent-replayed", "false") for one in said) == ["false", "true"]
    assert two.counted(runs) == before + 1


@pytest.mark.parametrize("table", ["requests", "runs"])
def test_an_idempotency_key_begins_one_run_of_a_thread(two: Two, table: str) -> None:
    """Whoever is second does not find the first one's run in its way."""
    thread, assistant = two.made("/v1/threads", THREAD), two.made("/v1/assistants", {"model": "agent-1"})
    headers = {"Idempotency-Key": f"three {table}"}
    said = two.both(table, "POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}, headers=headers)
    assert [one.status for one in said] == [200, 200]
    assert said[0].text == said[1].text


def test_an_idempotency_key_stands_for_one_request(two: Two) -> None:
    headers = {"Idempotency-Key": "two"}
    works = [
        partial(one.ask, "POST", "/v1/threads", {"metadata": {"n": str(number)}}, headers=headers)
        for number, one in enumerate(two.servers)
    ]
    said = two.each("requests", *works)
    assert [one.status for one in said] == [200, 409]
    assert said[1].error["code"] == "idempotency_key_conflict"


def test_a_name_makes_one_thread_with_one_run(two: Two) -> None:
    def asked(server: Serving) -> Answer:
        said = server.ask("POST", "/v1/chat/completions", CHAT, headers={"X-Retinue-Thread": "a name"})
        HELD.set()  # the first one answers now
        return said

    said = two.each("threads", *(partial(asked, one) for one in two.servers))
    HELD.clear()
    assert [one.status for one in said] == [200, 400]
    assert "already has an active run" in said[1].error["message"]
    assert two.counted(threads, threads.c.key == "a name") == 1


def test_a_thread_has_one_active_run(two: Two) -> None:
    thread, assistant = two.made("/v1/threads", THREAD), two.made("/v1/assistants", {"model": "agent-1"})
    said = two.both("runs", "POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant})
    assert [one.status for one in said] == [200, 400]
    assert said[1].error["message"] == f"Thread {thread} already has an active run {said[0].body['id']}."
    assert two.counted(runs, runs.c.thread_id == thread) == 1


def test_a_conversation_has_an_item_once(two: Two) -> None:
    conversation = two.made("/v1/conversations")
    item = {"id": "msg_1", "type": "message", "role": "user", "content": "Hi"}
    said = two.both("items", "POST", f"/v1/conversations/{conversation}/items", {"items": [item]})
    assert [one.status for one in said] == [200, 400]
    assert said[1].error["message"].startswith("Duplicate item found with id msg_1.")


def test_a_store_has_a_file_once(two: Two) -> None:
    file = upload(two.servers[0], "a.txt", b"Paris is a city.").body["id"]
    store = two.made("/v1/vector_stores", {"name": "s"})
    said = two.both("vector_store_files", "POST", f"/v1/vector_stores/{store}/files", {"file_id": file})
    assert [one.status for one in said] == [200, 200]
    assert two.counted(vector_store_files, vector_store_files.c.vector_store_id == store) == 1


def test_no_change_of_a_thread_is_lost(two: Two) -> None:
    path = f"/v1/threads/{two.made('/v1/threads')}"
    resources: Any = {"code_interpreter": {"file_ids": []}}
    works = [
        partial(one.ask, "POST", path, given)
        for one, given in zip(two.servers, ({"metadata": {"a": "b"}}, {"tool_resources": resources}), strict=True)
    ]
    assert [one.status for one in two.each("threads", *works)] == [200, 200]
    thread = two.ask("GET", path).body
    assert (thread["metadata"], thread["tool_resources"]) == ({"a": "b"}, resources)


def test_no_run_is_left_on_a_thread_that_is_deleted(two: Two) -> None:
    thread, assistant = two.made("/v1/threads", THREAD), two.made("/v1/assistants", {"model": "agent-1"})
    run = {"assistant_id": assistant, "additional_messages": [{"role": "user", "content": "Hi"}]}
    works = [
        partial(two.servers[0].ask, "POST", f"/v1/threads/{thread}/runs", run),
        partial(two.servers[1].ask, "DELETE", f"/v1/threads/{thread}"),
    ]
    said = two.each("messages", *works)
    assert [one.status for one in said] in ([200, 200], [200, 404])
    assert two.counted(runs, runs.c.thread_id == thread) == 0


def test_runs_that_wait_for_a_thread_are_begun_by_one_server_each(two: Two) -> None:
    thread, assistant = two.made("/v1/threads", THREAD), two.made("/v1/assistants", {"model": "agent-1"})
    given = {"assistant_id": assistant, "multitask_strategy": "enqueue"}
    for number in range(6):
        assert two.servers[number % 2].ask("POST", f"/v1/threads/{thread}/runs", given).status == 200
    HELD.set()
    until(lambda: two.counted(runs, runs.c.thread_id == thread, runs.c.status == "completed") == 6)
    HELD.clear()
    assert two.counted(runs, runs.c.thread_id == thread, runs.c.epoch == 1) == 6
    said = two.ask("GET", f"/v1/threads/{thread}/messages?limit=100").body["data"]
    by = [one["run_id"] for one in said if one["role"] == "assistant"]
    assert len(set(by)) == len(by) == 6


def test_a_run_that_both_servers_see_expire_ends_once(two: Two) -> None:
    given = {"assistant_id": two.made("/v1/assistants", {"model": "agent-1"}), "thread": THREAD}
    run = two.made("/v1/threads/runs", given)
    with two.servers[1].database.engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(expires_at=1))
    until(lambda: two.counted(runs, runs.c.id == run, runs.c.status == "expired") == 1)
    assert two.counted(events, events.c.run_id == run, events.c.kind == "stopped") == 1


def test_a_key_has_as_many_runs_as_it_may(tmp_path: Path, a_postgres: Postgres) -> None:
    url, limits = a_postgres.database(), Bounds(runs=1, queue=0)
    servers = [Serving(tmp_path, {"agent-1": working()}, url=url, limits=KeyLimits(limits), at_once=1) for _ in "ab"]
    with servers[0] as first, servers[1] as second:
        two = Two(url, first, second)
        given = {"assistant_id": two.made("/v1/assistants", {"model": "agent-1"}), "thread": THREAD}
        said = two.both("runs", "POST", "/v1/threads/runs", given)
        assert [one.status for one in said] == [200, 429]
        assert "Rate limit reached for runs" in said[1].error["message"]
        HELD.set()
        HELD.clear()
