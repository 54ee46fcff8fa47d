"""Databases that former versions' servers left, killed at their work: today's server opens them and goes on."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fakes.postgres import Postgres
from fakes.served import serving
from fakes.until import until
from recorded.databases import TENANTS, Api, Json

FOLDERS = sorted(Path(__file__).parent.glob("v*/databases"))


class Opened:
    """A copy of a recorded database behind today's server: `said` is what was recorded, `reads` the answers now."""

    def __init__(self, url: str, folder: Path) -> None:
        self.said = json.loads((folder / "said.json").read_text("utf-8"))
        self._url = url
        self._ledger = folder / "ledger.txt"
        self.reads = [self._read(one["who"], one["path"]) for one in self.said["reads"]]

    def _read(self, who: str, path: str) -> Any:
        """What is there now. A store's index is no part of a database: its texts are there once it was made anew."""
        is_indexed = path.startswith("/vector_stores/") and path.endswith("/content")

        def found() -> Any:
            answer = self.api(who).get(path)
            return None if is_indexed and not answer["data"] else answer

        return until(found)

    def api(self, who: str) -> Api:
        """The API for a tenant."""
        return Api(self._url, self.said["keys"][who])

    def going_on(self, who: str) -> dict[str, str]:
        """Where that is found of a tenant which had not ended, or can be gone on with."""
        return dict(self.said["going_on"][who])

    def effects(self, effect: str) -> int:
        """How often a tool began with something."""
        return self._ledger.read_text("utf-8").splitlines().count(effect)


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.parent.name)
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recorded database and all that was beside it. Tools end at once."""
    folder = tmp_path_factory.mktemp("recorded") / "copy"
    shutil.copytree(request.param, folder)
    (folder / "open").touch()
    database = folder / "runs.db"
    database.write_bytes(gzip.decompress((folder / "runs.db.gz").read_bytes()))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE requests SET created_at = ?", [int(time.time())])  # which are kept for a day
    return folder


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest, copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The same, served; on PostgreSQL it is the same rows in the tables that the version made there."""
    folder = tmp_path_factory.mktemp("served") / "copy"
    shutil.copytree(copied, folder)
    more: list[str] = []
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("a_postgres")
        more = ["--db", server.database()]
        load(folder, more[1])
    with serving(folder, (folder / "agents.yml").read_text("utf-8"), args=more) as served:
        yield Opened(served.url, folder)


def load(folder: Path, url: str) -> None:
    """Make the tables in `folder` in a new PostgreSQL database, with the rows of the SQLite file there."""
    with closing(sqlite3.connect(folder / "runs.db")) as source, psycopg.connect(url) as target:
        target.execute((folder / "tables.sql").read_text("utf-8").encode())
        target.execute("SET session_replication_role = replica")  # triggers have counted these rows already
        for (table,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = source.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            wanted = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
            for row in rows:
                target.execute(wanted.encode(), [one if isinstance(one, bytes | None) else str(one) for one in row])
            if "number" in names:
                count = f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table}"
                target.execute(count.encode())


def as_today(told: Any, path: str) -> Any:
    """What former versions told, without the calls of an agent's own tools, of which responses tell who asks."""
    return _without_calls(told) if path.startswith(("/responses", "/v1/responses")) else told


def _without_calls(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without_calls(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_without_calls(one) for one in told if not (isinstance(one, dict) and one.get("type") == "mcp_call")]
    return told


def test_all_that_rests_reads_as_it_did(on_both: Opened) -> None:
    other = {
        (then["who"], then["path"]): (as_today(then["is"], then["path"]), now)
        for then, now in zip(on_both.said["reads"], on_both.reads, strict=True)
        if as_today(then["is"], then["path"]) != now
    }
    assert other == {}


@pytest.mark.full
@pytest.mark.parametrize("who", TENANTS)
def test_what_was_queued_or_half_done_goes_on_to_its_end(on_both: Opened, who: str) -> None:
    api, found = on_both.api(who), on_both.going_on(who)
    waiting = {"half done: once", "queued: waits for a client"}  # which other tests answer
    names = [name for name in found if name.startswith(("half done", "queued")) and name not in waiting]
    assert {name: api.rests(found[name])["status"] for name in names} == dict.fromkeys(names, "completed")
    assert len(names) >= 6
    assert answer(api, found["half done: read"]) == "I have seen it."
    assert answer(api, found["queued"]) == "It is noted."
    assert api.get(found["half done: response"])["output"][-1]["content"][0]["text"] == "I have seen it."


def test_what_was_between_two_steps_goes_on_with_what_it_knew(on_both: Opened) -> None:
    api, path = on_both.api(TENANTS[0]), on_both.going_on(TENANTS[0])["half done: between steps"]
    assert api.rests(path)["status"] == "completed"
    assert answer(api, path) == "It is noted."
    shown = "include[]=step_details.tool_calls[*].server_tools"
    steps = api.get(f"{path}/steps?order=asc&{shown}")["data"]
    assert [step["type"] for step in steps] == ["tool_calls", "message_creation"]


@pytest.mark.parametrize("who", TENANTS)
def test_an_effect_of_which_the_outcome_was_lost_is_not_had_again(on_both: Opened, who: str) -> None:
    api, path = on_both.api(who), on_both.going_on(who)["half done: once"]
    (call,) = calls(api.rests(path))
    assert call["function"]["name"] == "pay"
    assert submitted(api, path, "It arrived.")["status"] == "completed"
    assert answer(api, path) == "Then it is paid."
    assert on_both.effects(f"pay {who}") == 1


@pytest.mark.parametrize("who", TENANTS)
def test_a_run_that_waits_takes_what_its_client_or_a_person_says(on_both: Opened, who: str) -> None:
    api, found = on_both.api(who), on_both.going_on(who)
    assert submitted(api, found["waits: of a client"], "21 degrees")["status"] == "completed"
    assert answer(api, found["waits: of a client"]) == "It is 21 degrees in Paris."
    before = on_both.effects(f"book {who}")
    assert submitted(api, found["waits: of a person"], "approve")["status"] == "completed"
    assert answer(api, found["waits: of a person"]) == "It is booked."
    assert on_both.effects(f"book {who}") == before + 1


def test_a_response_is_followed_by_what_its_client_or_a_person_says(on_both: Opened) -> None:
    api, found = on_both.api(TENANTS[1]), on_both.going_on(TENANTS[1])
    call = api.get(found["response: of a client"])["output"][-1]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "21 degrees"}
    assert followed(api, found["response: of a client"], [output]) == "It is 21 degrees in Paris."
    request = api.get(found["response: of a person"])["output"][-1]
    word = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    before = on_both.effects(f"book {TENANTS[1]}")
    assert followed(api, found["response: of a person"], [word]) == "It is booked."
    assert on_both.effects(f"book {TENANTS[1]}") == before + 1


def test_responses_conversations_and_threads_are_gone_on_with(on_both: Opened) -> None:
    api, found = on_both.api(TENANTS[0]), on_both.going_on(TENANTS[0])
    assert followed(api, found["response"], "Hello!") == "Hello, I am an agent."
    before = len(api.get(f"{found['conversation']}/items")["data"])
    given = {"model": "worker", "input": "Hello!", "conversation": found["conversation"].rpartition("/")[2]}
    assert said(api.post("/responses", given)) == "Hello, I am an agent."
    assert len(api.get(f"{found['conversation']}/items")["data"]) == before + 2
    thread, _, _ = found["half done: read"].partition("/runs/")
    api.rests(found["half done: read"])
    api.post(f"{thread}/messages", {"role": "user", "content": "Hello!"})
    run = api.post(f"{thread}/runs", {"assistant_id": api.get("/assistants")["data"][0]["id"]})
    assert api.rests(f"{thread}/runs/{run['id']}")["status"] == "completed"
    assert "harbours" in json.dumps(api.post(f"{found['vector store']}/search", {"query": "harbours"}))


def test_a_completion_whose_client_was_cut_off_is_there_in_the_end(on_both: Opened) -> None:
    def found() -> bool:
        completions = on_both.api(TENANTS[0]).get("/chat/completions?limit=100")["data"]
        return "I have seen it." in {one["choices"][0]["message"]["content"] for one in completions}

    assert until(found)


def test_a_request_that_comes_again_is_answered_as_before(on_both: Opened) -> None:
    for then in on_both.said["repeats"]:
        again = on_both.api(then["who"]).post(then["path"], then["body"], Idempotency_Key=then["key"])
        assert again == as_today(then["is"], then["path"])


def test_a_tenant_finds_nothing_of_another(on_both: Opened) -> None:
    one, other = TENANTS
    for path in on_both.going_on(one).values():
        assert on_both.api(other).answer("GET", path)[0] == 404


def calls(run: Json) -> list[Json]:
    """The calls that a run waits for."""
    return list(run["required_action"]["submit_tool_outputs"]["tool_calls"])


def submitted(api: Api, path: str, output: str) -> Json:
    """A run that waited, once it has ended with `output` for each of its calls."""
    outputs = [{"tool_call_id": call["id"], "output": output} for call in calls(api.get(path))]
    api.post(f"{path}/submit_tool_outputs", {"tool_outputs": outputs})
    return dict(api.rests(path))


def answer(api: Api, path: str) -> str:
    """What a run said on its thread."""
    thread, _, run = path.partition("/runs/")
    (message,) = api.get(f"{thread}/messages?run_id={run}")["data"]
    return str(message["content"][0]["text"]["value"])


def followed(api: Api, path: str, given: Any) -> str:
    """What is answered to `given` after a response."""
    model = api.get(path)["model"]
    return said(
        api.post("/responses", {"model": model, "input": given, "previous_response_id": path.rpartition("/")[2]})
    )


def said(response: Json) -> str:
    """A response's text."""
    return str(response["output"][-1]["content"][0]["text"])
