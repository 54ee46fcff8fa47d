"""Servers and workers are replaced under load, and an older one that comes too late is refused: a small sample.

`make upgrades` does the same under more load, also with Temporal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from fakes.postgres import Postgres
from retinue.errors import DataError
from retinue.store.database import Database
from retinue.store.engines import engine_of
from retinue.store.migrations import newest
from upgrades.rolling import roll
from upgrades.versions import CHANGED, version_after, version_before


@pytest.mark.parametrize("pair", ["from the version before", pytest.param("to the next", marks=pytest.mark.full)])
def test_servers_and_workers_are_replaced_under_load(pair: str, tmp_path: Path, a_postgres: Postgres) -> None:
    url = a_postgres.database()
    if pair == "to the next":
        before, after, wanted = Path(__file__).parents[2] / "src", version_after(tmp_path), newest("sqlite") + 1
    else:
        before, after, wanted = version_before(tmp_path), None, newest("sqlite")
    said: list[str] = []
    seen, in_flight = roll(url, before, after, runs=20, at_once=12, told=said.append)
    assert [*seen.problems(), *in_flight] == [f"{kind}: completed" for kind in ("approval", "client", "team", "long")]
    assert (seen.broken, seen.gaps, len(said)) == (0, 0, 4)
    engine = engine_of(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT max(version) FROM versions")).scalar() == wanted
    engine.dispose()
