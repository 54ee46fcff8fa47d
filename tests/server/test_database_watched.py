"""A server whose database goes away under it says so, and acknowledges nothing that would be lost."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.served import Served, serving
from fakes.until import until_async
from retinue.cli import main

pytestmark = pytest.mark.anyio
AGENTS = "agents: [{name: agent-1, params: {model: scripted, strategy: tool_calling, script: [{say: one}]}}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    with serving(folder, AGENTS) as server:
        yield server


async def asked(server: Served, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {server.key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, server.root + path, json=body, headers=headers) as response,
    ):
        return response.status, await response.json()


async def threads(server: Served, number: int) -> list[str]:
    """New threads that the server has acknowledged."""
    made = [await asked(server, "POST", "/v1/threads", {}) for _ in range(number)]
    assert {status for status, _ in made} == {200}
    return [thread["id"] for _, thread in made]


def deleted(db: Path) -> None:
    db.unlink()


def renamed(db: Path) -> None:
    db.rename(db.with_name("elsewhere.db"))


def replaced(db: Path) -> None:
    shutil.copy(db, db.with_name("copy.db"))
    db.with_name("copy.db").replace(db)


def emptied(db: Path) -> None:
    os.truncate(db, 0)


def cut_off(db: Path) -> None:
    os.truncate(db, db.stat().st_size // 2)


def overwritten(db: Path) -> None:
    with closing(sqlite3.connect(db)) as beside:
        beside.execute("PRAGMA wal_checkpoint")
    db.write_bytes(b"\0" * db.stat().st_size)


def folder_deleted(db: Path) -> None:
    shutil.rmtree(db.parent)


def folder_renamed(db: Path) -> None:
    db.parent.rename(db.parent.with_name("moved"))


def log_deleted(db: Path) -> None:
    db.with_name("runs.db-wal").unlink()


def log_replaced(db: Path) -> None:
    log = db.with_name("runs.db-wal")
    shutil.copy(log, db.with_name("copy"))
    db.with_name("copy").replace(log)


def index_of_log_deleted(db: Path) -> None:
    db.with_name("runs.db-shm").unlink()


HARMS: dict[Callable[[Path], None], str] = {
    deleted: "it was deleted or moved",
    renamed: "it was deleted or moved",
    replaced: "was replaced by another file",
    emptied: "was cut off or overwritten",
    cut_off: "was cut off or overwritten",
    overwritten: "was cut off or overwritten",
    folder_deleted: "it was deleted or moved",
    folder_renamed: "it was deleted or moved",
    log_deleted: "has lost runs.db-wal",
    log_replaced: "has lost runs.db-wal",
    index_of_log_deleted: "has lost runs.db-shm",
}


# a file that is shorter than it says may only be about to get longer: that is looked into
REFUSED = [(503, "The server cannot reach"), (503, "The server has lost")]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
async def test_what_would_be_lost_is_not_acknowledged(server: Served, harm: Callable[[Path], None]) -> None:
    await threads(server, 3)
    assert await asked(server, "GET", "/ready") == (200, {"status": "ready"})
    harm(server.db)
    if harm is index_of_log_deleted:  # nothing is lost with it, so it is not looked for at each commit
        await until_async(lambda: said_in_log(server, "not ready"))
    for path, body in (("/v1/threads", {}), ("/v1/chat/completions", chat()), ("/v1/assistants", {"model": "agent-1"})):
        status, said = await asked(server, "POST", path, body)
        assert (status, said["error"]["message"].partition(" its database")[0]) in REFUSED[harm is not cut_off :]
    assert (await asked(server, "GET", "/ready"))[0] == 503
    assert (await asked(server, "GET", "/health"))[0] == 200
    await until_async(lambda: said_in_log(server, "not ready"))
    assert server.stop() == 0
    lines = [json.loads(line)["message"] for line in server.log.splitlines() if "not ready" in line]
    assert len(lines) == 1
    assert HARMS[harm] in lines[0]
    assert lines[0].endswith("restart the server" if "has lost" in lines[0] else "start it again")


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_what_was_acknowledged_before_the_log_was_deleted_is_there_at_the_next_start(
    server: Served, end: str
) -> None:
    made = await threads(server, 20)
    log_deleted(server.db)
    await until_async(lambda: said_in_log(server, "not ready"))
    getattr(server, end)()
    server.restart()
    assert [(await asked(server, "GET", f"/v1/threads/{one}"))[0] for one in made] == [200] * 20
    await threads(server, 1)


async def test_a_file_that_is_put_back_is_written_to_again(server: Served) -> None:
    made = await threads(server, 3)
    renamed(server.db)
    assert (await asked(server, "POST", "/v1/threads", {}))[0] == 503
    await until_async(lambda: said_in_log(server, "not ready"))
    server.db.with_name("elsewhere.db").rename(server.db)
    await until_async(lambda: said_in_log(server, "ready again"))
    made += await threads(server, 3)
    assert await asked(server, "GET", "/ready") == (200, {"status": "ready"})
    server.kill()
    server.restart()
    assert [(await asked(server, "GET", f"/v1/threads/{one}"))[0] for one in made] == [200] * 6


async def test_a_link_that_leads_elsewhere_is_seen(tmp_path: Path, folder: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(folder / "runs.db")
    with serving(folder, AGENTS, args=["--db", str(link)]) as server:
        await threads(server, 1)
        (tmp_path / "new.db").symlink_to(folder / "other.db")
        (folder / "other.db").touch()
        (tmp_path / "new.db").replace(link)
        assert (await asked(server, "POST", "/v1/threads", {}))[0] == 503
        assert (await asked(server, "GET", "/ready"))[0] == 503


async def test_what_others_do_to_the_database_by_its_own_means_is_no_harm(server: Served) -> None:
    await threads(server, 30)
    with closing(sqlite3.connect(server.db)) as beside, beside:
        beside.execute("DELETE FROM threads")
    for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
        with closing(sqlite3.connect(server.db)) as beside:
            beside.execute(statement)
        await threads(server, 1)
    assert main(["keys", "make", "--db", str(server.db)]) == 0
    assert await asked(server, "GET", "/ready") == (200, {"status": "ready"})
    await threads(server, 1)
    assert "not ready" not in server.log


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["same", "symbolic", "hard", "folder", "relative"])
@pytest.mark.parametrize("lock_file", ["there", "deleted"])
def test_by_whatever_name_a_second_server_is_refused(
    server: Served, tmp_path: Path, name: str, lock_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(threads(server, 1))
    db, other = server.db, tmp_path / "other.db"
    if lock_file == "deleted":
        db.with_name("runs.db.lock").unlink()
    if name == "symbolic":
        other.symlink_to(db)
    elif name == "hard":
        other.hardlink_to(db)
    elif name == "folder":
        (tmp_path / "link").symlink_to(db.parent)
        other = tmp_path / "link" / db.name
    else:
        other = db if name == "same" else db.parent / ".." / db.parent.name / db.name
    file = tmp_path / "agents.yml"
    file.write_text(AGENTS)
    assert main(["serve", str(file), "--port", "0", "--db", str(other), "--api-key", "none"]) == 2
    said = capsys.readouterr().err
    assert "another server has" in said or (name == "hard" and "2 names (hard links)" in said)
    asyncio.run(threads(server, 1))


def chat() -> Any:
    return {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}]}


async def said_in_log(server: Served, what: str) -> bool:
    return what in server.log
