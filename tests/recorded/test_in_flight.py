"""Runs that the version before left in every state: today's server ends each as it was to end, and nothing twice."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from fakes.postgres import Postgres
from fakes.served import Served, serving
from fakes.until import until
from recorded.databases import ENDED, Api
from recorded.in_flight import EACH, LOST, WORDS
from recorded.test_databases import load
from retinue.store.run_row import ACTIVE, BY_MEMBERS, Kind

FOLDERS = sorted(Path(__file__).parent.glob("v*/in_flight"))
SAYS = {"get_weather": "21 degrees", "pay": "It arrived."}  # to what else waits: "approve"


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.parent.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what was recorded. Tools end at once."""
    shutil.copytree(request.param, tmp_path / "copy")
    shutil.copy(request.param.parent / "databases" / "tables.sql", tmp_path / "copy")
    (tmp_path / "copy" / "open").touch()
    (tmp_path / "copy" / "runs.db").write_bytes(gzip.decompress((request.param / "runs.db.gz").read_bytes()))
    return tmp_path / "copy"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    """Today's server of it."""
    more: list[str] = []
    if request.param == "postgresql":
        postgres: Postgres = request.getfixturevalue("a_postgres")
        more = ["--db", postgres.database()]
        load(folder, more[1])
    with serving(folder, (folder / "agents.yml").read_text("utf-8"), args=more) as server:
        yield server


def test_there_are_fifty_and_of_every_state_and_kind(folder: Path) -> None:
    query = (
        "SELECT kind, status, driver = ?, error IS NOT NULL FROM runs WHERE status IN (SELECT value FROM json_each(?))"
    )
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        found = connection.execute(query, [BY_MEMBERS, json.dumps([*ACTIVE])]).fetchall()
        kinds = {kind for (kind,) in connection.execute("SELECT kind FROM runs")}
        counts = [connection.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in ("images", "memories")]
    assert len(found) >= 50
    assert kinds == {*get_args(Kind)} - {"python"}  # which that version had not
    assert kinds - {kind for kind, *_ in found} == {"imported"}  # which nobody drives
    assert all(counts)
    assert {status for _, status, *_ in found} == ACTIVE
    assert {(status, bool(by)) for _, status, by, _ in found} >= {("in_progress", True), ("requires_action", True)}
    assert [status for _, status, _, suspended in found if suspended] == ["queued"] * len(EACH)


@pytest.mark.full
def test_none_is_lost_and_nothing_is_done_twice(served: Served, folder: Path) -> None:
    said = json.loads((folder / "said.json").read_text("utf-8"))
    api = Api(served.url, said["key"])
    before = {run["id"] for run in listed(api)}
    assert {run: seen_through(api, run) for run in said["runs"]} == said["runs"]
    assert {run["id"] for run in listed(api)} == before
    imported = json.loads(json.dumps(said["imported"]).replace('"images": []', '"files": []'))  # as they were called
    assert {run: api.get(f"/runs/{run}/events?limit=20") for run in said["imported"]} == imported
    done = Counter((folder / "ledger.txt").read_text("utf-8").splitlines())
    assert {word: done[f"pay {word}"] for word in LOST} == dict.fromkeys(LOST, 1)
    for word in WORDS.values():
        assert (done[f"pay {word}"], done[f"book {word}"], done[f"book team {word}"]) == (1, 1, 1)
        kept = api.get(f"/memories?user={word}")["data"]
        assert "I have seen it." in json.dumps([api.get(f"/memories/{one['id']}") for one in kept])


def listed(api: Api) -> list[dict[str, Any]]:
    """All runs, members' too."""
    return list(api.get("/runs?limit=100")["data"])


def seen_through(api: Api, run_id: str) -> str:
    """How a run ends, when whatever it waits for is given to it."""

    def rests() -> Any:
        run = api.get(f"/runs/{run_id}")
        return run if run["status"] in (*ENDED, "requires_action") else None

    while (run := until(rests))["status"] == "requires_action":
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = [
            {"tool_call_id": call["id"], "output": SAYS.get(call["function"]["name"], "approve")} for call in calls
        ]
        api.post(f"/runs/{run_id}/submit_tool_outputs", {"tool_outputs": outputs})
    return str(run["status"])
