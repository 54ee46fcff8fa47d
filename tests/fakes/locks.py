"""Who waits for whom in PostgreSQL."""

from __future__ import annotations

from sqlalchemy import Engine, text


def waits_for_lock(engine: Engine) -> bool:
    """Whether a transaction in this database waits for another's lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with engine.connect() as connection:
        return bool(connection.execute(text(query)).scalar())
