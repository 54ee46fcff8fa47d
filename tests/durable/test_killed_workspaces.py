"""A write of a file survives kill -9 at every event: the files are the same at the end, and no version is there twice.

A program forks a process for each death, and one that goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select

from retinue.runs.stored_workspace import StoredWorkspace
from retinue.store.database import Database
from retinue.store.run_queries import find_run
from retinue.store.tables import runs, workspace_versions

POINTS = ("after claim", "before asking", "before reply is written", "before intent", "after intent", "before event")
WROTE = 6
PROGRAM = """
import json, os, sys
from retinue import Agent, PromptModel
from retinue.runs.failpoints import await_crash

def calls():
    for at in range(3):
        yield f"{at - 1}.txt is changed" if at else "Begin", "write_file", {"path": f"{at}.txt", "content": f"{at} old"}
        yield f"{at}.txt is written", "edit_file", {"path": f"{at}.txt", "old": "old", "new": "new old"}

def run(key, point):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    await_crash(point)
    script = [{"when": when, "call": {"tool": tool, "input": given}} for when, tool, given in calls()]
    script += [{"when": "2.txt is changed", "finish": "Done."}, {"finish": "Lost."}]
    agent = Agent(PromptModel(engine="scripted", script=script), strategy="tool_calling", name="writer",
                  harness=True, store=sys.argv[1])
    said = agent.run("Begin", key=key)
    agent.close()
    os._exit(0 if said.text == "Done." else 1)

for point in json.loads(sys.argv[2]):
    for number in range(1, int(sys.argv[3])):
        key = f"{point} {number}".replace(" ", "-")
        died = run(key, f"{point}:{number}")
        print(json.dumps([key, died, run(key, "")]), flush=True)
        if died == 0:
            break
"""


def versions_of(connection: Connection, workspace: str) -> list[int]:
    query = select(workspace_versions.c.version).where(workspace_versions.c.workspace_id == workspace)
    return sorted(connection.execute(query).scalars())


def look(url: str) -> list[tuple[dict[str, bytes], list[int]]]:
    """The files of each run, and the numbers of their versions."""
    database = Database(url)

    async def main() -> list[Any]:
        found = []
        ids = await database.read(lambda connection: connection.execute(select(runs.c.id)).scalars().all())
        for one in ids:
            run = await database.read(partial(find_run, run_id=one))
            assert run is not None
            workspace = StoredWorkspace(database, run)
            there = [one.path for one in await workspace.list_files()]
            versions = await database.read(partial(versions_of, workspace=one))
            found.append((dict(await workspace.read_files(there)), versions))
        await database.close_async()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize(("points", "most"), [(POINTS[-2:], 2), pytest.param(POINTS, 100, marks=pytest.mark.full)])
def test_a_write_survives_kills_at_every_event(any_url: str, points: tuple[str, ...], most: int) -> None:
    words = [sys.executable, "-c", PROGRAM, any_url, json.dumps(points), str(most)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=dict(os.environ))
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) >= len(points), done.stderr[-3_000:]
    assert {code for _, _, code in said} == {0}, done.stderr[-3_000:]
    assert sum(died == -9 for _, died, _ in said) >= len(points)
    wanted = {f"{at}.txt": f"{at} new old".encode() for at in range(3)}
    found = look(any_url)
    assert len(found) == len(said)
    for files, versions in found:
        assert files == wanted
        assert versions == list(range(1, WROTE + 1))
