"""`Idempotency-Key`: a request that is sent again is answered again, and done once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import Connection, func, select, update

from fakes.app_server import Answer, Serving
from fakes.served import Served
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.net.retry import Retries
from retinue.server.http.idempotency import Repeat, sweep
from retinue.store.database import Database
from retinue.store.tables import assistants, requests, runs
from retinue.store.tenant_view import TenantView

CHAT = {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Whose agent always says the same."""
    agent = Agent(PromptModel(script=[{"when": "", "say": "Paris."}]), name="agent-1")
    with Serving(tmp_path_factory.mktemp("served"), {"agent-1": agent}) as server:
        yield server


def send(served: Serving, path: str, given: Any = None, key: str = "", **more: Any) -> Answer:
    return served.ask("POST", path, given, headers={"Idempotency-Key": key}, **more)


def counted(served: Serving, table: Any = runs) -> int:
    with served.database.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_what_is_sent_again_is_answered_again(on_both: Serving) -> None:
    given = {"model": "agent-1", "name": "Ada"}
    first = send(on_both, "/v1/assistants", given, "one")
    before = counted(on_both, assistants)
    again = send(on_both, "/v1/assistants", given, "one")
    assert (first.status, again.status, again.text) == (200, 200, first.text)
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert counted(on_both, assistants) == before
    on_both.ask("DELETE", f"/v1/assistants/{first.body['id']}")
    assert send(on_both, "/v1/assistants", given, "one").text == first.text, "what was said then"


def test_a_key_stands_for_one_request_on_one_path(served: Serving) -> None:
    assert send(served, "/v1/threads", {"metadata": {"n": "1"}}, "two").status == 200
    other = send(served, "/v1/threads", {"metadata": {"n": "2"}}, "two")
    assert (other.status, other.error["code"]) == (409, "idempotency_key_conflict")
    assert other.headers["x-should-retry"] == "false"
    assert send(served, "/v1/threads?n=1", {"metadata": {"n": "1"}}, "two").status == 409
    assert send(served, "/v1/assistants", {"model": "agent-1"}, "two").body["object"] == "assistant"


def test_a_header_that_says_what_is_to_be_done_is_part_of_the_request(served: Serving) -> None:
    def on(thread: str, key: str = "which thread") -> Answer:
        headers = {"Idempotency-Key": key, **({"X-Retinue-Thread": thread} if thread else {})}
        return served.ask("POST", "/v1/chat/completions", CHAT, headers={**headers, "X-Request-Id": thread or "none"})

    assert (on("one").status, on("one").headers["idempotent-replayed"]) == (200, "true")
    for other in ("two", ""):
        assert (on(other).status, on(other).error["code"]) == (409, "idempotency_key_conflict")


@pytest.mark.parametrize("key", ["", "k" * 256, "\t", "k\xe9y"])
def test_a_key_is_255_printable_characters_at_most(served: Serving, key: str) -> None:
    said = send(served, "/v1/threads", {}, key)
    assert (said.status, said.error["param"]) == (400, "Idempotency-Key")
    assert send(served, "/v1/threads", {}, "k" * 255).status == 200


def test_what_was_refused_is_looked_at_anew(served: Serving) -> None:
    path = "/v1/threads/thread_none/messages"
    for _ in range(2):
        said = send(served, path, {"role": "user", "content": "Hi"}, "three")
        assert (said.status, "idempotent-replayed" in said.headers) == (404, False)
    assert send(served, path, {"role": "user", "content": "Ho"}, "three").status == 404, "it stands for nothing"


def test_after_a_day_a_key_is_free(served: Serving) -> None:
    first = send(served, "/v1/threads", {}, "four").body["id"]
    old = send(served, "/v1/threads", {}, "five").body["id"]
    with served.database.engine.begin() as connection:
        connection.execute(update(requests).where(requests.c.key.in_(["four", "five"])).values(created_at=1))
    assert send(served, "/v1/threads", {}, "four").body["id"] != first
    served.in_loop(served.database.write(sweep))
    with served.database.engine.connect() as connection:
        kept = set(connection.execute(select(requests.c.key)).scalars())
    assert "four" in kept
    assert "five" not in kept
    assert send(served, "/v1/threads", {}, "five").body["id"] != old


def test_a_run_is_told_as_it_was_and_its_stream_once_more(served: Serving) -> None:
    assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
    given = {"assistant_id": assistant, "thread": {"messages": [{"role": "user", "content": "Hi"}]}, "stream": True}
    before = counted(served)
    first = send(served, "/v1/threads/runs", given, "six")
    again = send(served, "/v1/threads/runs", given, "six")
    assert counted(served) == before + 1
    assert events_of(again) == events_of(first)
    assert events_of(again)[-1] == "done"
    assert again.text.count("Paris.") >= 2
    assert [one for one in told(again) if one.get("object") == "thread"] == [
        one for one in told(first) if one.get("object") == "thread"
    ]


def events_of(answer: Answer) -> list[str]:
    """The names of a stream's events, deltas once."""
    names = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    return [name for at, name in enumerate(names) if name != names[at - 1]]


def told(answer: Answer) -> list[Any]:
    """The data of a stream's events."""
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_chat_completions_are_answered_by_the_run_that_there_is(served: Serving) -> None:
    before = counted(served)
    first, again = (send(served, "/v1/chat/completions", CHAT, "seven") for _ in range(2))
    assert first.body == again.body
    streams = [send(served, "/v1/chat/completions", {**CHAT, "stream": True}, "eight") for _ in range(2)]
    texts = ["".join(one["choices"][0]["delta"].get("content", "") for one in told(stream)) for stream in streams]
    assert texts == ["Paris.", "Paris."]
    assert len({one["id"] for stream in streams for one in told(stream)}) == 1
    assert counted(served) == before + 2


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    rules = [{"when": "Hi", "error": 500, "times": 1}, {"when": "Hi", "say": "Ho."}]
    agent = Agent(PromptModel(script=rules, retries=Retries(tries=1)), name="agent-1")
    with Serving(tmp_path, {"agent-1": agent}) as served:
        failed, done, again = (send(served, "/v1/chat/completions", CHAT, "nine") for _ in range(3))
        assert (failed.status, done.status) == (500, 200)
        assert again.body == done.body
        assert counted(served) == 2


@pytest.mark.anyio
async def test_of_two_requests_at_once_whose_first_attempt_is_given_up_one_does_its_work(any_url: str) -> None:
    database, scope, done = Database(any_url), TenantView("t"), []
    one, two = (Repeat("k", "/v1/x", b"", {}) for _ in range(2))

    def refuse(connection: Connection, scope: TenantView) -> str:
        raise LookupError

    def work(connection: Connection, scope: TenantView) -> str:
        done.append("once")
        return "done"

    async def write(work: Callable[[Connection, TenantView], str]) -> str:
        return await database.write(lambda connection: work(connection, scope))

    for repeat in (one, two):
        with pytest.raises(LookupError):
            await write(repeat.once(refuse))
    for repeat in (one, two):
        assert await write(repeat.once(work)) == "done"
    assert (done, one.again, two.again) == (["once"], False, True)
    await database.close_async()


def test_a_file_that_is_sent_again_has_another_boundary(served: Serving) -> None:
    """Clients make one up for each request; nothing else differs."""

    def hashed(boundary: str, pieces: int) -> str:
        body = f"--{boundary}\r\nContent-Disposition: form-data\r\n\r\n{'x' * 100}\r\n--{boundary}--\r\n".encode()
        repeat = Repeat("k", "/v1/files", b"", {"content-type": f"multipart/form-data; boundary={boundary}"})
        size = len(body) // pieces + 1
        for at in range(0, len(body), size):
            repeat.add(body[at : at + size])
        return repeat.digest()

    assert len({hashed("a" * 30, 1), hashed("b" * 32, 7), hashed("c" * 30, 90)}) == 1


@pytest.fixture
async def client(deployed_apart: Served) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {deployed_apart.key}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=200)) as session:
        yield session


async def ask(client: aiohttp.ClientSession, url: str, given: Any, key: str) -> Any:
    """What was said; `None` if nothing was."""
    try:
        async with client.post(url, json=given, headers={"Idempotency-Key": key}) as said:
            return await said.json() if said.status == 200 else None
    except (aiohttp.ClientError, ConnectionError):
        return None


@pytest.mark.full
@pytest.mark.anyio
async def test_many_at_once_make_one_run_for_each_key_also_across_a_kill(
    deployed_apart: Served, client: aiohttp.ClientSession
) -> None:
    given = {"model": "plain", "messages": [{"role": "user", "content": "slowly, please"}]}
    url = f"{deployed_apart.url}/chat/completions"
    keys = [f"key {number}" for number in range(20)]
    asking = asyncio.gather(*(ask(client, url, given, key) for _ in range(10) for key in keys))
    await asyncio.to_thread(until, lambda: rows_of(deployed_apart) > 5)
    deployed_apart.kill()
    assert None in await asking
    deployed_apart.restart()
    said = await asyncio.gather(*(ask(client, url, given, key) for _ in range(50) for key in keys))
    assert None not in said
    assert {one["choices"][0]["message"]["content"] for one in said} == {"At last."}
    assert len({one["id"] for one in said}) == len(keys)
    deployed_apart.stop()
    assert rows_of(deployed_apart) == len(keys)


@pytest.mark.anyio
async def test_who_goes_away_finds_the_completion_when_he_comes_back(
    deployed_apart: Served, client: aiohttp.ClientSession
) -> None:
    given = {"model": "plain", "messages": [{"role": "user", "content": "slowly, please"}]}
    url = f"{deployed_apart.url}/chat/completions"
    asking = asyncio.create_task(ask(client, url, given, "a key"))
    await asyncio.to_thread(until, lambda: rows_of(deployed_apart) == 1)
    asking.cancel()
    said = await ask(client, url, given, "a key")
    assert said["choices"][0]["message"]["content"] == "At last."
    assert rows_of(deployed_apart) == 1


def rows_of(server: Served) -> int:
    """How many runs there are."""
    with sqlite3.connect(server.db) as connection:
        count: int = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    connection.close()
    return count
