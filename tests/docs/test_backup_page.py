"""The commands of docs/backup.md, run under load: what was acknowledged before a backup goes on in the copy."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, select

from chaos.cluster import ASKS
from chaos.harness import Client, Json, Site, client_of, site, waiting
from chaos.kills import SHAPES
from chaos.orders import Order, decided
from fakes.fork_server import retinue
from fakes.postgres import Postgres
from fakes.served import Served
from retinue.store.database import Database

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
OF_KIND = {"sqlite": ("copy.db", "restored.db"), "postgresql": ("copy.dump", "$RESTORED")}
LONG = "look, note, pay, look, note, look"
KINDS = ("approval", "asks", "team", SHAPES[0], LONG, SHAPES[1], LONG, SHAPES[2])


@pytest.fixture(params=sorted(OF_KIND))
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Where a database is, and where its copy is restored."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/retinue.db", f"sqlite:///{tmp_path}/restored.db"
    server: Postgres = request.getfixturevalue("a_postgres")
    return server.database(), server.database()


def page_command(verb: str, url: str, more: str = "") -> str:
    """The page's command for a kind of database."""
    copy, target = OF_KIND["sqlite" if url.startswith("sqlite") else "postgresql"]
    found = [one for one in COMMANDS if one.startswith(f"retinue database {verb} {copy}")]
    only: str
    (only,) = [one for one in found if more in one and (more or "--go-on" not in one)]
    assert verb == "backup" or target in only or more
    return only


def typed(command: str, folder: Path, urls: Sequence[str]) -> str:
    """What a shell says to a command of the page."""
    ours = f'retinue() {{ "{sys.executable}" -m retinue "$@"; }}; {command}'
    env = {**os.environ, "DATABASE": urls[0], "RESTORED": urls[1]}
    done = subprocess.run(["bash", "-c", ours], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def elsewhere(at: Site, url: str) -> Iterator[Site]:
    """The same agents and the same world, and another server on another database, while in the block."""
    env = {"CHAOS_WORLD": at.world, "PYTHONDONTWRITEBYTECODE": ""}
    server = Served(at.server.db.with_name("agents.yml"), env, ["--db", url])
    try:
        yield Site(server, at.world, url)
    finally:
        server.stop()


async def begun(client: Client, order: Order, kind: str) -> None:
    """Have a run begun, and its creation acknowledged."""
    thread = await client.thread(order.question)
    order.run = await client.begin(None, thread, model=order.model, tools=ASKS if kind == "asks" else None)


def order_of(number: int, kind: str) -> Order:
    steps = {"approval": "look, sign", "asks": "look, ask, note", "team": "look+note, pay, note"}.get(kind, kind)
    return Order(str(number), steps, team=kind == "team")


async def seen_through(client: Client, order: Order) -> None:
    while (run := await client.rests(order.run))["status"] == "requires_action":
        order.run = await client.submit(run, await decided(client, order, run))
    order.run = run


async def of_all_states(client: Client, number: int) -> list[Order]:
    """Runs of each kind that have been acknowledged, some of which wait, have ended, or have just begun."""
    orders = [order_of(at, KINDS[at % len(KINDS)]) for at in range(number)]
    first = orders[: number // 2]
    await asyncio.gather(*(begun(client, one, KINDS[at % len(KINDS)]) for at, one in enumerate(first)))
    await asyncio.gather(*(client.rests(one.run) for one in first[:3]))  # two wait; one has ended
    later = range(number // 2, number)
    await asyncio.gather(*(begun(client, orders[at], KINDS[at % len(KINDS)]) for at in later))
    return orders


@pytest.mark.full
def test_what_was_acknowledged_goes_on_where_it_is_restored(tmp_path: Path, urls: tuple[str, str]) -> None:
    with site(db=urls[0], delay=0.3) as at:
        orders, began = asyncio.run(backed_up(at, tmp_path, urls))
        assert re.search(r"(\d+) runs?, [1-9]\d* under way, [1-9]\d* waiting for somebody", orders.said)
        assert "was restored to" in typed(f"{page_command('restore', urls[1])} --go-on", tmp_path, urls)
        with elsewhere(at, urls[1]) as there:
            effects = asyncio.run(gone_on(there, orders.all))
    for order in orders.all:
        assert (order.run["status"], order.said) == ("completed", [order.answer]), order.run["last_error"]
        assert {(one["tool"], one["what"]) for one in effects} >= set(order.wanted)
    again = Counter((one["tool"], one["what"]) for one in effects)
    first = {(one["tool"], one["what"]): one["at"] for one in reversed(effects)}
    twice = [what for what, times in again.items() if times > 1 and what[0] != "look"]
    assert [what for what in twice if what[0] == "note" or first[what] < began] == []


class BackedUp:
    """What was acknowledged before a backup, and what the command said."""

    def __init__(self, orders: list[Order], said: str) -> None:
        self.all = orders
        self.said = said


async def backed_up(at: Site, folder: Path, urls: tuple[str, str]) -> tuple[BackedUp, float]:
    """Back up a server under load, and let it die thereafter; and when that began."""
    async with client_of(at) as client:
        orders = await of_all_states(client, 24)
        more = [order_of(at, SHAPES[0]) for at in range(1000, 1006)]
        load = [asyncio.create_task(begun(client, one, SHAPES[0])) for one in more]
        began = time.time()
        said = await asyncio.to_thread(typed, page_command("backup", urls[0]), folder, urls)
        await asyncio.gather(*load)
        await asyncio.to_thread(at.server.kill)
    return BackedUp(orders, said), began


async def gone_on(at: Site, orders: Sequence[Order]) -> list[Json]:
    """See all of it through at another server; the effects that there were, there and before."""
    async with client_of(at) as client:
        await asyncio.wait_for(asyncio.gather(*(seen_through(client, one) for one in orders)), 90)
        for one in orders:
            one.said = await client.messages(one.run["thread_id"])
        return await client.effects()


async def cancelled(at: Site, orders: Sequence[Order]) -> list[Json]:
    async with client_of(at) as client:
        runs = await asyncio.gather(*(client.rests(one.run) for one in orders))
        assert all(waiting(one) for one in runs if one["status"] == "requires_action")
        return list(runs)


@pytest.mark.full
def test_what_was_under_way_is_cancelled_unless_one_says_otherwise(tmp_path: Path) -> None:
    urls = (f"sqlite:///{tmp_path}/retinue.db", f"sqlite:///{tmp_path}/restored.db")
    with site(db=urls[0], delay=0.3) as at:
        orders, _ = asyncio.run(backed_up(at, tmp_path, urls))
        typed(page_command("restore", urls[1]), tmp_path, urls)
        before = len(at.began())
        with elsewhere(at, urls[1]) as there:
            ends = Counter(one["status"] for one in asyncio.run(cancelled(there, orders.all)))
            assert len(there.began()) == before  # nothing is done any more
    assert set(ends) == {"cancelled", "requires_action", "completed"}, ends


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of a database but its servers'; the ends of runs are moved."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        found = {}
        for name, table in metadata.tables.items():
            columns = [column for column in table.columns if (name, column.name) != ("runs", "expires_at")]
            found[name] = sorted((tuple(row) for row in connection.execute(select(*columns))), key=repr)
    engine.dispose()
    return {name: some for name, some in found.items() if name != "processes"}


@pytest.mark.full
def test_a_copy_has_every_row(tmp_path: Path, urls: tuple[str, str]) -> None:
    """Of a database with rows in each table: SQLite's types and PostgreSQL's, bytes and text that no parser likes."""
    with closing(Database(urls[0])) as database:
        fill(database)
        before = rows(urls[0])
        typed(page_command("backup", urls[0]), tmp_path, urls)
    typed(f"{page_command('restore', urls[1])} --go-on", tmp_path, urls)
    after = rows(urls[1])
    assert all(before.values())
    (entry,), entries = before.pop("audit_entries"), after.pop("audit_entries")
    assert entry in entries  # and who restored it
    assert after == before


def fill(database: Database) -> None:
    """Put a row into each table."""
    from retinue.store.tables import metadata

    values = {"INTEGER": 7, "BIGINT": 7, "SMALLINT": 1, "FLOAT": 0.1, "BOOLEAN": False, "JSON": {"a": "ä🙂'\\"}}
    with database.engine.begin() as connection:
        for table in metadata.sorted_tables:
            if table.name == "versions":
                continue
            row = {
                column.name: values.get(str(column.type), bytes(range(256)) if "BLOB" in str(column.type) else "ä'\\")
                for column in table.columns
            }
            connection.execute(table.insert().values(row))


@pytest.mark.parametrize("refused", ["there", "-wal", ".index"])
def test_nothing_is_overwritten(tmp_path: Path, refused: str) -> None:
    Database(f"sqlite:///{tmp_path}/retinue.db").close()
    copy = retinue("database", "backup", "copy.db", "--db", "retinue.db", cwd=tmp_path)
    assert copy.returncode == 0
    again = retinue("database", "backup", "copy.db", "--db", "retinue.db", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "retinue: copy.db exists; give another name, or move it away\n")
    name = "new.db" if refused == "there" else f"new.db{refused}"
    (tmp_path / name).write_text("precious")
    said = retinue("database", "restore", "copy.db", "--db", "new.db", cwd=tmp_path)
    assert said.stderr == f"retinue: {name} exists; restore to a name at which there is nothing, or move it away\n"
    assert said.returncode == 2
    assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is no copy of a database that `retinue database backup` made"),
        (b"", "is no copy of a database that `retinue database backup` made"),
        (b"PGDMP", "is a copy of a PostgreSQL database: give its URL as --db"),
        (b"SQLite format 3\0" + bytes(4000), "copy.db is damaged: "),
    ],
)
def test_what_is_no_copy_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "copy.db").write_bytes(content)
    said = retinue("database", "restore", "copy.db", "--db", "new.db", cwd=tmp_path)
    assert message in said.stderr
    assert said.stderr.count("\n") == 1
    assert said.returncode == 2
    assert [one.name for one in tmp_path.iterdir()] == ["copy.db"]


@pytest.mark.full
def test_a_copy_that_was_cut_off_or_changed_is_not_restored(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/retinue.db")) as database:
        fill(database)
    retinue("database", "backup", "copy.db", "--db", "retinue.db", cwd=tmp_path)
    whole = (tmp_path / "copy.db").read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:30_000] + b"\xff" * 3000 + whole[33_000:]):
        (tmp_path / "copy.db").write_bytes(broken)
        said = retinue("database", "restore", "copy.db", "--db", "new.db", cwd=tmp_path)
        assert (said.returncode, said.stderr[:25]) == (2, "retinue: copy.db is damag")
        assert not (tmp_path / "new.db").exists()


def test_a_database_with_tables_is_not_restored_to(tmp_path: Path, a_postgres: Postgres) -> None:
    url = a_postgres.database()
    Database(url).close()
    assert retinue("database", "backup", "copy", "--db", url, cwd=tmp_path).returncode == 0
    said = retinue("database", "restore", "copy", "--db", url, cwd=tmp_path)
    assert re.fullmatch(r"retinue: the database holds tables \(\w+, …\); restore to an empty one: .*\n", said.stderr)


@pytest.mark.full
def test_the_time_since_the_copy_does_not_count_for_runs(tmp_path: Path) -> None:
    from sqlalchemy import text

    with closing(Database(f"sqlite:///{tmp_path}/retinue.db")) as database:
        fill(database)
        retinue("database", "backup", "copy.db", "--db", "retinue.db", cwd=tmp_path)
    engine = create_engine(f"sqlite:///{tmp_path}/copy.db")
    with engine.begin() as connection:
        connection.execute(text("UPDATE processes SET seen_at = seen_at - 3600"))  # as if it were of an hour ago
    engine.dispose()
    assert ", made 20" in retinue("database", "restore", "copy.db", "--db", "new.db", "--go-on", cwd=tmp_path).stdout
    engine = create_engine(f"sqlite:///{tmp_path}/new.db")
    with engine.connect() as connection:
        (expires,) = connection.execute(text("SELECT expires_at FROM runs")).scalars()
        assert 3600 <= expires - 7 <= 3660
        assert connection.execute(text("SELECT count(*) FROM processes")).scalar() == 0
    engine.dispose()


def test_each_command_of_the_page_is_run_here() -> None:
    assert len(COMMANDS) == 5
