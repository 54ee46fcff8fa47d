"""The tables of quotas, of what tenants used, and of the audit log."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, String, Table, UniqueConstraint

from .tables import metadata

_NUMBER = BigInteger().with_variant(Integer, "sqlite")

# a limit of a tenant (or of `DEFAULT`): of `what` at most so much in each `period` ("" for a level); null: no limit
quotas = Table(
    "quotas",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("what", String(8), primary_key=True),
    Column("period", String(8), primary_key=True),
    Column("most", BigInteger),
)

# the sum of `bytes` of a tenant's rows in another table, `what`; changed by the transactions that change these rows
storage_used = Table(
    "storage_used",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("what", String(16), primary_key=True),
    Column("bytes", BigInteger, nullable=False),
)

# what a tenant used on a `day` (since 1970, UTC). Each process adds to a `part` of its own, so none waits for another
usage_sums = Table(
    "usage_sums",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("part", String(64), primary_key=True),
    Column("runs", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
)

# the days of tenants of which logs were deleted, so that they cannot be counted again
usage_gaps = Table(
    "usage_gaps",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
)

# `place`, `former` and `hash` are the entry's in the chain, and null until it is sealed: `audit_chain`
audit_entries = Table(
    "audit_entries",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("id", String(64), nullable=False),
    Column("created_at", _NUMBER, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(256), nullable=False),
    Column("detail", JSON(none_as_null=True), nullable=False),
    Column("request_id", String(64)),
    Column("address", String(64)),
    Column("place", BigInteger),
    Column("former", String(64)),
    Column("hash", String(64)),
    UniqueConstraint("id"),
    UniqueConstraint("place"),
    Index("audit_of_tenant", "tenant", "number"),
)
