"""Servers and workers are replaced under load, and an older one that comes too late is refused: a small sample.

`make upgrades` does the same under more load, also with Temporal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from fakes.postgres import Postgres
from retinue.errors import DataError
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import newest, version_of
from upgrades.rolling import roll
from upgrades.versions import CHANGED, KEPT, version_after, version_before


@pytest.mark.full
@pytest.mark.parametrize("pair", ["to the next", *(["from the version before"] if KEPT else [])])
def test_servers_and_workers_are_replaced_under_load(pair: str, tmp_path: Path, a_postgres: Postgres) -> None:
    url = a_postgres.database()
    if pair == "to the next":
        before, after, wanted = Path(__file__).parents[2] / "src", version_after(tmp_path), newest("sqlite") + 1
    else:
        before, after, wanted = version_before(tmp_path), None, newest("sqlite")
    said: list[str] = []
    seen, in_flight = roll(url, before, after, runs=20, at_once=12, told=said.append)
    assert [*seen.problems(), *in_flight] == [f"{kind}: completed" for kind in ("approval", "client", "team", "long")]
    assert (seen.broken, len(said)) == (0, 4)
    engine = engine_of(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT max(version) FROM versions")).scalar() == wanted
    engine.dispose()


def retinue(src: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What the `retinue` of the code in `src` says to these words."""
    command = [sys.executable, "-m", "retinue", *words]
    env = {**os.environ, "PYTHONPATH": str(src)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_a_next_version_that_changes_something_names_what_to_stop(tmp_path: Path, a_postgres: Postgres) -> None:
    url, number = a_postgres.database(), newest("sqlite") + 1
    after = version_after(tmp_path, CHANGED)
    with closing(Database(url)):
        looked = retinue(after, "database", "check", "--db", url)
        assert looked.returncode == 1
        assert f"{number:03}_next.sql  stop all servers first" in looked.stdout
        refused = retinue(after, "database", "migrate", "--db", url)
        assert refused.returncode == 2
        assert f"(migration {number:03}_next.sql cannot run beside older servers and workers: stop" in refused.stderr
    assert (
        f"was migrated from schema version {number - 1} to {number}"
        in retinue(after, "database", "migrate", "--db", url).stdout
    )
    with pytest.raises(DataError, match="was written by a newer Retinue"):
        Database(url)


@pytest.mark.full
def test_a_next_version_that_adds_something_leaves_the_way_back_open(tmp_path: Path, a_postgres: Postgres) -> None:
    url, number = a_postgres.database(), newest("sqlite") + 1
    after = version_after(tmp_path)
    with closing(Database(url)):
        assert retinue(after, "database", "migrate", "--db", url).returncode == 0
    with closing(Database(url)) as database, database.engine.connect() as connection:
        assert version_of(connection) == number


@pytest.mark.full
@pytest.mark.skipif(not KEPT, reason="nothing was released yet")
def test_the_version_before_does_not_start_once_the_database_was_migrated(tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path}/runs.db").close()
    said = retinue(version_before(tmp_path), "keys", "list", "--db", str(tmp_path / "runs.db"))
    assert said.returncode == 2
    assert "was written by a newer Retinue" in said.stderr
