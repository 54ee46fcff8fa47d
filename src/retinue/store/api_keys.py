"""API keys, of which only the SHA-256 is stored; and the server's secrets, random bytes by name.

A key belongs to one tenant and is immutable, except that it can be revoked. A secret is generated once per database.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Connection, Row, func, insert, select, update

from ..errors import DataError
from .database import Database
from .tables import keys, secrets as secret_rows

DEFAULT_TENANT = "default"
_KNOWN_FOR = 0.5  # seconds for which a found key is cached
_LISTED = 0.2  # minimum seconds between two listings of all keys, which bounds the cost of guessing
_BYTES = 32  # of a secret
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_USER = 256  # characters
_SHOWN = 8  # characters of a key that are shown, so that a person recognizes it


@dataclass(frozen=True, slots=True)
class Key:
    """What is stored about a key. `user` is for whom it acts (`None`: for the tenant as a whole). `scopes` is what it
    may do (`None`: everything); `limits` holds its own limits by name (a `None` value: unlimited). Times are Unix
    seconds."""

    id: str
    tenant: str = DEFAULT_TENANT
    name: str = ""
    prefix: str = ""
    scopes: tuple[str, ...] | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    created_at: int = 0
    expires_at: int | None = None
    revoked_at: int | None = None
    user: str | None = None

    @classmethod
    def of(cls, row: Row[tuple[object, ...]]) -> Key:
        """Return the key in a table row."""
        kept = {name: row._mapping[name] for name in cls.__slots__ if row._mapping[name] is not None}
        scopes = kept.get("scopes")
        return cls(**{**kept, "scopes": None if scopes is None else tuple(scopes)})

    def good(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Keys:
    """Looks up keys, in those `given` to this process and in the database: the former may do everything, unless `known`
    has their data. `now` returns Unix seconds."""

    def __init__(
        self,
        database: Database,
        given: Iterable[str] = (),
        now: Callable[[], float] = time.time,
        known: Mapping[str, Key] | None = None,
    ) -> None:
        self._database = database
        self._given = {hash_key(key): Key(key_id_of(hash_key(key))) for key in given}
        self._given |= {hash_key(key): data for key, data in (known or {}).items()}
        self._now = now
        self._found: dict[str, tuple[float, Key]] = {}
        self._there: frozenset[str] = frozenset()  # the hashes of all keys, as last listed
        self._listed = -math.inf
        self._listing: asyncio.Task[None] | None = None

    async def find(self, key: str) -> Key | None:
        """Return the stored data of a valid key; `None` if the key is unknown, revoked or expired."""
        wanted = hash_key(key)
        for one, known in self._given.items():
            if hmac.compare_digest(one, wanted):
                return known
        until, kept = self._found.get(wanted, (0.0, None))
        if time.monotonic() >= until:
            if wanted not in self._there:
                await self._list()
            kept = await self._database.read(partial(find_key, wanted=wanted)) if wanted in self._there else None
            self._found.pop(wanted, None)
            if kept is not None:
                self._found[wanted] = (time.monotonic() + _KNOWN_FOR, kept)
        return kept if kept is not None and kept.good(self._now()) else None

    async def _list(self) -> None:
        """List the known keys again. Callers that arrive before the listing begins share it."""
        if self._listing is None:
            self._listing = asyncio.create_task(self._look())
        await asyncio.shield(self._listing)

    async def _look(self) -> None:
        try:
            await asyncio.sleep(self._listed + _LISTED - time.monotonic())
        finally:
            self._listing = None  # a caller from here on may have a key that this listing misses
        self._listed = time.monotonic()
        self._there = await self._database.read(all_hashes)


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key as hex."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def describe_bad_user(name: str) -> str:
    """Return what is wrong with the name of a user, or an empty string."""
    if 0 < len(name) <= _LONGEST_USER and name.isprintable() and name == name.strip():
        return ""
    return f"{name[:80]!r} is not a valid user: want one line of 1 to {_LONGEST_USER} characters without outer spaces"


def describe_bad_tenant(name: str) -> str:
    """Return what is wrong with the name of a tenant, or an empty string."""
    if _TENANT.fullmatch(name):
        return ""
    return f"{name[:80]!r} is not a valid tenant: want up to 64 letters, digits, '.', '_' and '-'"


def key_id_of(key_hash: str) -> str:
    """Return the id of a key. It does not help to guess the key's 256 random bits."""
    return f"key_{key_hash[:24]}"


def find_key(connection: Connection, wanted: str) -> Key | None:
    """Return the key with this hash, or `None`."""
    row = connection.execute(select(keys).where(keys.c.hash == wanted)).first()
    return Key.of(row) if row is not None and hmac.compare_digest(row.hash, wanted) else None


def all_hashes(connection: Connection) -> frozenset[str]:
    """Return the hashes of all keys, valid or not."""
    return frozenset(connection.execute(select(keys.c.hash)).scalars())


def count_keys(connection: Connection) -> int:
    """Return the number of keys, valid or not."""
    return connection.execute(select(func.count()).select_from(keys)).scalar() or 0


def all_keys(connection: Connection) -> Sequence[Key]:
    """Return all keys, ordered by creation time, then id."""
    return [Key.of(row) for row in connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id))]


def keys_since(connection: Connection, when: int) -> Sequence[Key]:
    """Return the keys that were created at `when`, in Unix seconds, or later."""
    return [Key.of(row) for row in connection.execute(select(keys).where(keys.c.created_at >= when))]


def create_key(  # noqa: PLR0913 -- what a key has
    connection: Connection,
    tenant: str = DEFAULT_TENANT,
    name: str = "",
    scopes: Sequence[str] | None = None,
    limits: Mapping[str, int | None] | None = None,
    expires_in: int | None = None,
    user: str | None = None,
) -> str:
    """Create a key and return it; it cannot be shown again. It expires after `expires_in` seconds (`None`: never). The
    other arguments are as in `Key`."""
    key = f"sk-{secrets.token_urlsafe(32)}"
    now = int(time.time())
    values = {
        "hash": hash_key(key),
        "tenant": tenant,
        "user": user,
        "created_at": now,
        "id": key_id_of(hash_key(key)),
        "name": name,
        "prefix": key[:_SHOWN],
        "scopes": None if scopes is None else list(scopes),
        "limits": dict(limits or {}),
        "expires_at": None if expires_in is None else now + expires_in,
    }
    connection.execute(insert(keys).values(values))
    return key


def revoke_key(connection: Connection, id_: str) -> Key | None:
    """Revoke the key with this id and return it; `None` if it does not exist."""
    mine = keys.c.id == id_
    connection.execute(update(keys).where(mine, keys.c.revoked_at.is_(None)).values(revoked_at=int(time.time())))
    row = connection.execute(select(keys).where(mine)).first()
    return None if row is None else Key.of(row)


def server_secret(connection: Connection, name: str, *, make: bool = False) -> bytes:
    """Return the 32 bytes of this name, empty if they do not exist. `make` generates them in the caller's transaction.
    Raises `DataError` if the row holds anything else."""
    try:
        found: bytes | None = connection.execute(select(secret_rows.c.value).where(secret_rows.c.name == name)).scalar()
    except TypeError as error:  # the column holds text
        raise _unreadable(name) from error
    if found is None and make:
        found = secrets.token_bytes(_BYTES)
        connection.execute(insert(secret_rows).values(name=name, value=found))
    if found is not None and len(found) != _BYTES:
        raise _unreadable(name)
    return found or b""


def _unreadable(name: str) -> DataError:
    return DataError(f"the table secrets must hold {_BYTES} bytes for '{name}', but holds something else")
