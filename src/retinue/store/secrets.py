"""What only this database's server knows: random bytes by their names, each made once."""

from __future__ import annotations

import secrets as random

from sqlalchemy import Connection, insert, select

from .tables import secrets

_BYTES = 32


def secret(connection: Connection, name: str, *, make: bool = False) -> bytes:
    """The 32 bytes of this name; empty if they were never made. `make`: make them then, in the caller's transaction."""
    found: bytes | None = connection.execute(select(secrets.c.value).where(secrets.c.name == name)).scalar()
    if found is None and make:
        found = random.token_bytes(_BYTES)
        connection.execute(insert(secrets).values(name=name, value=found))
    return bytes(found or b"")
