"""What goes on by itself in a server goes on, whatever one run's row says: nobody is held up by somebody else's."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from chaos.harness import Client, Json, Refused, Site, again, client_of, path_of, site
from fakes.app_server import Serving
from fakes.kept_runs import new_run
from fakes.until import until, until_async
from retinue.server.context import Options
from retinue.store.database import Database
from retinue.store.run_queries import insert_run
from retinue.store.tables import audit_entries, memories, runs, snapshots

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # OpenAI's of its assistants
]
SEARCH = [{"type": "file_search"}]


@pytest.fixture
def at() -> Iterator[Site]:
    with site(delay=0) as at:
        yield at


async def parked(client: Client) -> Json:
    """A run that waits for a person, and holds its thread."""
    return await client.rests(await client.start(await client.thread("Order w: sign")))


async def waits(client: Client, holder: Json, order: str, *files: str) -> Json:
    """A run that waits for the thread of another; its message brings these files along."""
    message: Json = {"role": "user", "content": f"Order {order}"}
    message |= {"attachments": [{"file_id": one, "tools": SEARCH} for one in files]}
    who = await client.once("POST", "/assistants", {"model": "worker"})
    asked = {"assistant_id": who["id"], "additional_messages": [message], "multitask_strategy": "enqueue"}
    run = await client.once("POST", f"/threads/{holder['thread_id']}/runs", asked)
    assert run["status"] == "queued"
    return run


async def let_go(client: Client, *holders: Json) -> None:
    """Cancel runs that hold their threads: it is the server's keeping that begins the next on these."""
    for one in holders:
        assert (await client.once("POST", f"{path_of(one)}/cancel"))["status"] == "cancelled"


def uploaded(at: Site) -> str:
    with at.server.client() as client:
        return client.files.create(file=("a.txt", b"Paris is in France."), purpose="assistants").id


@pytest.mark.parametrize("killed", [False, True])
async def test_a_file_that_is_gone_when_a_run_has_its_turn_fails_that_run_alone(at: Site, killed: bool) -> None:
    async with client_of(at) as client:
        file = uploaded(at)
        mine, others = await parked(client), await parked(client)
        bad, after = await waits(client, mine, "1: look", file), await waits(client, mine, "2: look")
        other = await waits(client, others, "3: look")
        await client.once("DELETE", f"/files/{file}")
        if killed:
            again(at)
        await let_go(client, mine, others)
        ended = [await asyncio.wait_for(client.rests(run), 20) for run in (bad, after, other)]
    assert [run["status"] for run in ended] == ["failed", "completed", "completed"]
    assert ended[0]["last_error"]["code"] == "invalid_prompt"
    assert file in ended[0]["last_error"]["message"]
    lines = [json.loads(line) for line in at.server.log.splitlines() if line.startswith("{")]
    assert [one["message"] for one in lines if bad["id"] in one["message"]] == [
        f"the run {bad['id']} failed: {ended[0]['last_error']['message']}"
    ]


async def test_what_a_run_cannot_bring_along_is_refused_when_it_is_asked_for(at: Site) -> None:
    async with client_of(at) as client:
        holder = await parked(client)
        with pytest.raises(Refused, match="file-none"):
            await waits(client, holder, "1: look", "file-none")
        found = await client.once("GET", f"/threads/{holder['thread_id']}/runs")
        thread = await client.once("GET", f"/threads/{holder['thread_id']}")
    assert [run["id"] for run in found["data"]] == [holder["id"]]
    assert not thread["tool_resources"]


@pytest.mark.full
@pytest.mark.matrix
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("column", ["request", "waiting"])
async def test_a_row_that_cannot_be_read_holds_up_nobody(at: Site, column: str, killed: bool) -> None:
    async with client_of(at) as client:
        mine, others = await parked(client), await parked(client)
        bad, after = await waits(client, mine, "1: look"), await waits(client, mine, "2: look")
        other = await waits(client, others, "3: look")
        with closing(sqlite3.connect(at.server.db)) as beside, beside:
            beside.execute(f"UPDATE runs SET {column} = '{{\"a\": ' WHERE id = ?", [bad["id"]])
        if killed:
            again(at)
        await let_go(client, mine, others)
        assert (await asyncio.wait_for(client.rests(other), 20))["status"] == "completed"
        assert (await asyncio.wait_for(client.rests(after), 20))["status"] == "completed"
        await until_async(lambda: failed(at, bad["id"]))


@pytest.mark.parametrize("killed", [False, True])
async def test_the_time_of_others_ends_though_a_row_cannot_be_read(at: Site, killed: bool) -> None:
    async with client_of(at) as client:
        bad, other = await parked(client), await parked(client)
        with closing(sqlite3.connect(at.server.db)) as beside, beside:
            beside.execute("UPDATE runs SET waiting = '{' WHERE id = ?", [bad["id"]])
        if killed:
            again(at)
        with closing(sqlite3.connect(at.server.db)) as beside, beside:
            beside.execute("UPDATE runs SET expires_at = 1")
        async with asyncio.timeout(20):
            while other["status"] != "expired":
                other = await client.ask("GET", path_of(other))
        await until_async(lambda: failed(at, bad["id"]))


async def failed(at: Site, run_id: str) -> bool:
    with closing(sqlite3.connect(at.server.db)) as beside:
        found = beside.execute("SELECT status FROM runs WHERE id = ?", [run_id]).fetchone()
    return bool(found == ("failed",))


@pytest.mark.parametrize(("chat_retention", "left"), [(0, {"chat"}), (86_400, set()), (10**6, {"chat"})])
def test_how_long_runs_are_kept(tmp_path: Path, chat_retention: int, left: set[str]) -> None:
    """That of a chat completion without `store` no longer than it says, or as long as all others."""
    url, now = f"sqlite:///{tmp_path}/runs.db", int(time.time())
    ended = new_run("old", status="completed", holds=False, expires_at=None, created_at=now - 2 * 10**6)
    chat = ended._replace(id="chat", thread_id=None, kind="chat", created_at=now - 2 * 86_400)
    with closing(Database(url)) as database, database.engine.begin() as connection:
        for run in (ended, chat):
            insert_run(connection, run)

    def kept(served: Serving) -> set[str]:
        with served.database.engine.connect() as connection:
            return set(connection.execute(select(runs.c.id)).scalars())

    with Serving(tmp_path, options=Options(retention=10**6, chat_retention=chat_retention), url=url) as served:
        until(lambda: "old" not in kept(served))
        assert kept(served) == left


def test_what_nothing_refers_to_and_old_entries_and_memories_go(tmp_path: Path) -> None:
    url, now = f"sqlite:///{tmp_path}/runs.db", int(time.time())
    with closing(Database(url)) as database, database.engine.begin() as connection:
        insert_run(connection, new_run("kept", status="completed", holds=False, expires_at=None, snapshot="used"))
        for digest in ("used", "unused"):
            connection.execute(insert(snapshots).values(tenant=new_run("kept").tenant, hash=digest, body={}))
        for at in (now - 2_000, now):
            whose = {
                "tenant": "t",
                "owner": f"user:{at}",
                "agent": "a",
                "part": 0,
                "kind": "k",
                "body": "x",
                "bytes": 1,
            }
            connection.execute(insert(memories).values(id=f"m_{at}", created_at=at, updated_at=at, **whose))
            entry = {"actor": "a", "action": "key.made", "target": f"{at}", "detail": {}}
            connection.execute(insert(audit_entries).values(id=f"e_{at}", tenant="t", created_at=at, **entry))
    with Serving(tmp_path, options=Options(thread_retention=1_000, audit_retention=1_000), url=url) as served:

        def left(column: Any) -> set[Any]:
            with served.database.engine.connect() as connection:
                return set(connection.execute(select(column)).scalars())

        until(lambda: "audit.pruned" in left(audit_entries.c.action))
        assert left(audit_entries.c.target) == {f"{now}", ""}
        assert left(memories.c.id) == {f"m_{now}"}
        assert left(snapshots.c.hash) == {"used"}
