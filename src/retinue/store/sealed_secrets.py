"""Secrets that a tenant, or a user of it, entrusts to the server: encrypted with a key that the database does not hold.

`RETINUE_SECRETS_KEY` has that key, or several with commas between them: the first one encrypts, all of them decrypt.
What is encrypted says whose it is, so that a row cannot be passed off as another's."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from .._internal.redaction import register_secret
from ..core.run_context import FindSecret
from ..errors import DataError, NotDone, UsageError
from .database import Database
from .tables import sealed_secrets

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

logger = logging.getLogger(__name__)
VARIABLE = "RETINUE_SECRETS_KEY"
LEAST, LONGEST, MOST = 8, 8_192, 100  # characters of a secret; secrets of a user, or of a tenant
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_COLUMNS = sealed_secrets.c


class SecretOwner(NamedTuple):
    """Whose secrets: a tenant's own, or those of a `user` of it."""

    tenant: str
    user: str | None = None

    def rows(self, name: str | None = None) -> list[ColumnElement[bool]]:
        """Return the conditions of the rows, or of that of one secret."""
        mine = [_COLUMNS.tenant == self.tenant, _COLUMNS.user == (self.user or "")]
        return mine if name is None else [*mine, _COLUMNS.name == name]


def make_secrets_key() -> str:
    """Return a new key for `RETINUE_SECRETS_KEY`."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def check_secret(name: str, value: str) -> None:
    """Raise `UsageError` for what cannot be set."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not the name of a secret: want up to 64 letters, digits and underscores")
    if not LEAST <= len(value) <= LONGEST or "\0" in value or value != value.strip():
        raise UsageError(f"a secret has {LEAST} to {LONGEST:,} characters, no NUL, and no white space around it")


def set_secret(connection: Connection, owner: SecretOwner, name: str, value: str, environ: Mapping[str, str]) -> None:
    """Set a secret, whether or not there is one. Raises `UsageError` for what cannot be set, and without a key."""
    check_secret(name, value)
    whole = [owner.tenant, owner.user or "", name, value]
    sealed = _cipher(environ).encrypt(json.dumps(whole).encode()).decode()
    values = {"sealed": sealed, "changed_at": int(time.time())}
    if connection.execute(update(sealed_secrets).where(*owner.rows(name)).values(values)).rowcount:
        return
    if len(list_secrets(connection, owner)) >= MOST:
        raise UsageError(f"there are {MOST} secrets already, which is the most; delete one first")
    whose = {"tenant": owner.tenant, "user": owner.user or "", "name": name}
    connection.execute(insert(sealed_secrets).values(**whose, **values))


def list_secrets(connection: Connection, owner: SecretOwner) -> dict[str, int]:
    """Return the names of the secrets, in order, each with when it was changed, in Unix seconds."""
    query = select(_COLUMNS.name, _COLUMNS.changed_at).where(*owner.rows()).order_by(_COLUMNS.name)
    return {row.name: row.changed_at for row in connection.execute(query)}


def delete_secret(connection: Connection, owner: SecretOwner, name: str) -> bool:
    """Delete a secret. Return whether there was one."""
    return connection.execute(delete(sealed_secrets).where(*owner.rows(name))).rowcount > 0


def read_secret(
    connection: Connection, owner: SecretOwner, name: str, environ: Mapping[str, str] = os.environ
) -> str | None:
    """Return a secret, `None` if there is none. Raises `UsageError` without a key, and `DataError` if the secret was
    encrypted with another one."""
    sealed = connection.execute(select(_COLUMNS.sealed).where(*owner.rows(name))).scalar()
    if sealed is None:
        return None
    *whose, value = _open(_cipher(environ), sealed, name)
    if whose != [owner.tenant, owner.user or "", name]:
        raise DataError(f"the secret {name} is not what was set: its row was altered")
    return value


def secrets_for(database: Database, owner: SecretOwner) -> FindSecret:
    """Return what finds the secrets of a run of this owner."""

    async def find(of: Literal["user", "tenant"], name: str) -> str | None:
        whose = owner if of == "user" else SecretOwner(owner.tenant)
        if of == "user" and owner.user is None:
            return None
        try:
            return await database.read(partial(read_secret, owner=whose, name=name), small=True)
        except (UsageError, DataError) as error:  # which is the operator's business
            logger.error("%s", error)
            raise NotDone("the secrets that are kept here cannot be read now") from None

    return find


def rotate_secrets(connection: Connection, environ: Mapping[str, str] = os.environ) -> int:
    """Encrypt all secrets anew, with the first key. Return their number. Raises as `read_secret` does."""
    cipher, rows = _cipher(environ), connection.execute(select(sealed_secrets).with_for_update()).all()
    for row in rows:
        _open(cipher, row.sealed, row.name)
        mine = SecretOwner(row.tenant, row.user).rows(row.name)
        connection.execute(update(sealed_secrets).where(*mine).values(sealed=cipher.rotate(row.sealed).decode()))
    return len(rows)


def _open(cipher: MultiFernet, sealed: str, name: str) -> list[str]:
    from cryptography.fernet import InvalidToken

    try:
        opened: list[str] = json.loads(cipher.decrypt(sealed))
    except InvalidToken as error:
        raise DataError(
            f"the secret {name} cannot be decrypted: {VARIABLE} lacks the key that it was set with"
        ) from error
    return opened


def _cipher(environ: Mapping[str, str]) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet

    keys = [one.strip() for one in environ.get(VARIABLE, "").split(",") if one.strip()]
    if not keys:
        raise UsageError(
            f"secrets need a key in the variable {VARIABLE}: `retinue secrets key` makes one; keep it apart"
        )
    register_secret(*keys)
    try:
        return MultiFernet([Fernet(one) for one in keys])
    except ValueError as error:
        raise UsageError(f"{VARIABLE} holds something that is no key: `retinue secrets key` makes one") from error
