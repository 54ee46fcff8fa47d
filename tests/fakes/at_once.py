"""Two writers at once on PostgreSQL: both have checked what they check before either inserts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from .until import until

T = TypeVar("T")
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def at_once(url: str, table: str, works: Sequence[Callable[[], T]]) -> list[T]:
    """What the blocking `works` return. They begin while nobody may write to `table`; once each of them waits for
    another transaction, they may go on."""
    with ThreadPoolExecutor(len(works)) as threads, psycopg.connect(url) as blocker:
        with psycopg.connect(url, autocommit=True) as watching:
            blocker.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            begun = [threads.submit(work) for work in works]
            try:
                until(lambda: _number(watching) >= len(works))
            finally:
                blocker.rollback()
        return [one.result() for one in begun]


def _number(watching: psycopg.Connection) -> int:
    row = watching.execute(_WAITING).fetchone()
    return 0 if row is None else int(row[0])
