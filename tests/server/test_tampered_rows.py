"""A database in which somebody wrote: whatever stands in a row, nothing of it runs, and nothing else stops."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import JSON, Column, Table, Text, text
from sqlalchemy.exc import SQLAlchemyError

from fakes.app_server import Serving
from fakes.openapi import document, operations
from fakes.pictures import data_url, png
from fakes.tenants import Customer, agents
from fakes.until import until_async
from retinue.core.values import Decision
from retinue.store.run_queries import find_run, insert_submission, update_run
from retinue.store.run_row import Submission
from retinue.store.tables import metadata, runs, snapshots, versions
from sampling import every

DOCUMENT = document()
CANARY = "tampered-canary"
RUNS_CODE = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "marshal.loads")
_GETS = [one for one in operations(DOCUMENT) if one.method == "GET" and one.path.startswith("/v1/")]
_PARTS = {
    "events": "runs",
    "submissions": "runs",
    "snapshots": "runs",
    "run_metadata": "completions",
    "keys": "models",
    "requests": "models",
    "items": "conversations",
    "contents": "files",
    "images": "completions",
    "run_images": "completions",
    "run_messages": "completions",
    "registered_tools": "tools",
    "secrets": "models",
    "processes": "models",
    "workspaces": "runs",
    "workspace_versions": "runs",
    "workspace_files": "runs",
    "workspace_blobs": "runs",
}
_watched: list[str] = []
_watching = [False]


class Touching:
    """Whose pickle makes a file when it is loaded."""

    def __reduce__(self) -> Any:
        return Path(CANARY).touch, ()


def hostile(other: Customer, column: Column[Any]) -> list[Any]:
    """What may stand where something else belongs."""
    objects = {
        "__class__": "os.system",
        "__reduce__": ["os.system", [f"touch {CANARY}"]],
        "lc": 1,
        "type": "constructor",
    }
    nested = dict.fromkeys(("body", "content", "messages", "tools", "waiting", "decisions", "model"), objects)
    wrong = {"code": 1, "input_tokens": "x", "call_1_0": {"kind": 1}, "tool": 7, "id": "x", "metadata": 1}
    asked = {"model": "agent-1", "tools": [{"type": "function"}], "messages": [{"role": 1}], "instructions": 7}
    values: list[Any] = [None, -1, 2**63 - 1, "text", f"!!python/object/apply:os.system ['touch {CANARY}']"]
    values += ["../../../../etc/passwd", "'); DROP TABLE runs; --", pickle.dumps(Touching()), other.ids["run"]]
    if isinstance(column.type, JSON | Text):
        values += ["null", "[]", "{}", '{"a": ', "[" * 5_000, '{"n": NaN, "s": "\\ud800"}', "x" * 200_000]
        values += [json.dumps(one) for one in (objects, nested, wrong, asked)]
    return values


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or not _watching[0]:  # there is nothing of this module any more when Python ends
        return
    if event.startswith(RUNS_CODE):
        _watched.append(event)
    if event == "open" and isinstance(arguments[0], str | bytes):
        name = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode("utf-8", "replace")
        if "passwd" in name or CANARY in name:
            _watched.append(f"open {name}")


sys.addaudithook(_watch)


@contextmanager
def watching() -> Iterator[None]:
    """While in the block, what begins programs, loads objects or opens what a row named is noted, and is a failure."""
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
    assert _watched == []
    assert not Path(CANARY).exists()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("tampered"), agents()) as server:
        yield server


@pytest.fixture(scope="module")
def owner(served: Serving) -> Customer:
    return made(served, "owner")


@pytest.fixture(scope="module")
def other(served: Serving) -> Customer:
    return made(served, "other")


def made(served: Serving, tenant: str) -> Customer:
    one = Customer(served, tenant)
    one.make_all(DOCUMENT["paths"])
    assert one.ask("POST", "/v1/responses/compact", {"model": "agent-1", "input": "Hi"}).status == 200
    headers = {"Idempotency-Key": "a key"}
    assert one.ask("POST", "/v1/threads", {"metadata": {"a": "b"}}, headers=headers).status == 200
    image = {"type": "image_url", "image_url": {"url": data_url(png())}}
    asked = {"model": "agent-1", "store": True, "messages": [{"role": "user", "content": [image]}]}
    assert one.ask("POST", "/v1/chat/completions", asked).status == 200
    with served.database.engine.begin() as connection:
        run = find_run(connection, one.ids["run"])
        assert run is not None
        given = Submission(
            1, 1, "mark", decisions={"call_0_0": Decision("respond", message="x")}, answered=("call_0_0",)
        )
        insert_submission(connection, update_run(connection, run, turns=1), given)
    return one


COLUMNS = [(table, column) for table in metadata.sorted_tables if table is not versions for column in table.columns]


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda one: one.name)
def test_what_stands_in_a_row_is_never_more_than_data(
    served: Serving, owner: Customer, other: Customer, table: Table, column: Column[Any], full: bool
) -> None:
    row = row_of(served, table, owner)
    if row is None:
        pytest.skip("nothing makes such a row yet")
    step = 2 if full else 6  # each value in some columns of each table, some values in each column
    values = every(hostile(other, column), step, list(table.columns).index(column))
    with watching():
        put = asyncio.run(tampering(served, owner, other, column, row, values))
    assert put > 0 or not full or column.foreign_keys or column.name == "id"  # which others refer to


def row_of(served: Serving, table: Table, who: Customer) -> Mapping[str, Any] | None:
    """A row of a table that has to do with `who`, as the database has it."""
    with served.database.engine.connect() as connection:
        own = f"tenant = '{who.tenant}'" if "tenant" in table.c else f"run_id = '{who.ids['run']}'"
        version = f"workspace_id = '{who.ids['thread']}'"
        others = {"secrets": "name = 'compaction'", "processes": "1 = 1", "workspace_versions": version}
        own = others.get(table.name, own)
        found = connection.execute(text(f"SELECT * FROM {table.name} WHERE {own} LIMIT 1")).mappings().first()
        return None if found is None else dict(found)


async def tampering(
    served: Serving, owner: Customer, other: Customer, column: Column[Any], row: Mapping[str, Any], values: list[Any]
) -> int:
    """Put each value where the column's stood, and ask the server what it makes of it; how often it could be put."""
    put = 0
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
        for value in values:
            if write(served, column, row, value):
                put += 1
                await look_at_all(http, served, owner, _PARTS.get(column.table.name, column.table.name))
                again = write(served, column, dict(row) | {column.name: value}, row[column.name])
                assert again or column.table is snapshots  # a run that begins writes the one that is missing
        for who in (owner, other):
            await served_well(http, served, who)
    return put


def write(served: Serving, column: Column[Any], row: Mapping[str, Any], value: Any) -> bool:
    """Put a value into a row, whatever it is; whether the database took it."""
    keys = [one.name for one in column.table.primary_key.columns]
    where = " AND ".join(f"{name} = ?" for name in keys)
    statement = f"UPDATE {column.table.name} SET {column.name} = ? WHERE {where}"
    try:
        with served.database.engine.begin() as connection:
            given = (value, *(row[name] for name in keys))
            return bool(connection.exec_driver_sql(statement, given).rowcount)
    except (SQLAlchemyError, OverflowError):
        return False


async def look_at_all(http: aiohttp.ClientSession, served: Serving, who: Customer, part: str) -> None:
    """Every GET about it, and what makes a run of what is there: all are answered, errors in the envelope."""
    headers = {"Authorization": f"Bearer {who.key}"}
    ids = {f"{kind}_id": id_ for kind, id_ in who.ids.items()}
    asked: list[tuple[str, str, Any]] = [("GET", one.path, None) for one in _GETS if part in one.path]
    asked += (
        []
        if part not in ("assistants", "threads", "runs", "messages")
        else [
            ("POST", "/v1/threads/runs", {"assistant_id": who.ids["assistant"]}),
            ("POST", "/v1/threads/{thread_id}/messages", {"role": "user", "content": "Hi"}),
            ("POST", "/v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", {"tool_outputs": []}),
        ]
    )
    for method, path, given in asked:
        filled = path
        for name in path.split("{")[1:]:
            name = name.partition("}")[0]
            filled = filled.replace(f"{{{name}}}", ids.get(name, "agent-1"))
        async with http.request(method, served.url + filled, json=given, headers=headers) as answer:
            said = await answer.text(errors="replace")
        where = (method, path, answer.status, said[:500])
        assert "Traceback" not in said, where
        assert "/src/retinue" not in said, where
        if answer.status >= 400:
            assert set(json.loads(said)) == {"error"}, where


async def served_well(http: aiohttp.ClientSession, served: Serving, who: Customer) -> None:
    """Who is not, or no longer, concerned is served (a key is known for a second)."""
    headers = {"Authorization": f"Bearer {who.key}"}

    async def there() -> bool:
        async with http.get(f"{served.url}/v1/threads/{who.ids['thread']}", headers=headers) as answer:
            return answer.status == 200

    await until_async(there)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (runs.c.error, '{"code": 1}'),
        (runs.c.error, "7"),
        (runs.c.waiting, '{"a": '),
        (runs.c.waiting, "7"),
        (runs.c.deleted, "7"),
        (runs.c.metadata, '{"a": '),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_run_whose_row_is_broken_is_failed_and_says_why(
    served: Serving, owner: Customer, column: Column[Any], value: str
) -> None:
    row = row_of(served, runs, owner)
    assert row is not None
    assert write(served, runs.c.status, row, "in_progress")
    assert write(served, runs.c.holds, row, 1)
    assert write(served, column, row, value)

    async def driven() -> None:
        await asyncio.wait([served.runs.start(owner.ids["run"])], timeout=20)

    served.in_loop(driven())
    run = owner.ask("GET", f"/v1/threads/{owner.ids['thread']}/runs/{owner.ids['run']}").body
    assert (run["status"], "cannot be read" in run["last_error"]["message"]) == ("failed", True), run
