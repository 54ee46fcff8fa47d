"""Advisory locks of a transaction, for what is decided by counting rows that others may add meanwhile."""

from __future__ import annotations

from sqlalchemy import Connection, text

COUNTING, CLAIMING, SEALING = 7_373_061_895, 7_373_061_896, 7_373_061_897
"""Arbitrary numbers: of who counts rows against a limit and adds one, of who claims runs within limits, and of who
continues the chain of the audit log."""


def lock_until_end(connection: Connection, number: int) -> None:
    """Make other transactions that call this with the same number wait until this one ends. SQLite has one writer
    anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
