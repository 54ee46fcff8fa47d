"""The server's secrets: random bytes by name, each generated once per database."""

from __future__ import annotations

import secrets as random

from sqlalchemy import Connection, insert, select

from ..errors import DataError
from .tables import secrets

_BYTES = 32


def server_secret(connection: Connection, name: str, *, make: bool = False) -> bytes:
    """Return the 32 bytes of this name, empty if they do not exist. `make` generates them in the caller's transaction.
    Raises `DataError` if the row holds anything else."""
    try:
        found: bytes | None = connection.execute(select(secrets.c.value).where(secrets.c.name == name)).scalar()
    except TypeError as error:  # the column holds text
        raise _unreadable(name) from error
    if found is None and make:
        found = random.token_bytes(_BYTES)
        connection.execute(insert(secrets).values(name=name, value=found))
    if found is not None and len(found) != _BYTES:
        raise _unreadable(name)
    return found or b""


def _unreadable(name: str) -> DataError:
    return DataError(f"the table secrets must hold {_BYTES} bytes for '{name}', but holds something else")
