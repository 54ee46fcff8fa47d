"""API keys: of each only its SHA-256 is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from functools import partial

from sqlalchemy import Connection, func, insert, select

from .database import Database
from .tables import keys

DEFAULT_TENANT = "default"
_KNOWN_FOR = 1.0  # seconds for which a key that was found is not looked up again


class Keys:
    """Whose each key is: `given` to this process, or in the database."""

    def __init__(self, database: Database, given: Iterable[str] = ()) -> None:
        self._database = database
        self._given = {hashed(key): DEFAULT_TENANT for key in given}
        self._found: dict[str, tuple[float, str]] = {}

    async def tenant_of(self, key: str) -> str | None:
        """The tenant whose key it is; `None` for no key of ours."""
        wanted = hashed(key)
        for one, tenant in self._given.items():
            if hmac.compare_digest(one, wanted):
                return tenant
        until, tenant = self._found.get(wanted, (0.0, ""))
        if time.monotonic() < until:
            return tenant
        kept = await self._database.read(partial(find, wanted=wanted))
        self._found.pop(wanted, None)
        if kept is not None:
            self._found[wanted] = (time.monotonic() + _KNOWN_FOR, kept)
        return kept


def hashed(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def find(connection: Connection, wanted: str) -> str | None:
    """The tenant of the key with this hash."""
    row = connection.execute(select(keys.c.hash, keys.c.tenant).where(keys.c.hash == wanted)).first()
    return row.tenant if row is not None and hmac.compare_digest(row.hash, wanted) else None


def count(connection: Connection) -> int:
    """How many keys there are."""
    return connection.execute(select(func.count()).select_from(keys)).scalar() or 0


def make(connection: Connection, tenant: str = DEFAULT_TENANT) -> str:
    """A new key, which nobody can show again."""
    key = f"sk-{secrets.token_urlsafe(32)}"
    connection.execute(insert(keys).values(hash=hashed(key), tenant=tenant, created_at=int(time.time())))
    return key
