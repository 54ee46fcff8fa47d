"""What a database knows of a run's user: what its runs used today, and which calls people always allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from ..core.user_records import Policy, UserUse
from .audit_log import Author, record
from .clock import CLOCK
from .database import Database
from .prepared_statements import insert_once
from .tables import policies
from .usage_sums import NANOS, day_of, used_by_user

_PLACED = ("id", "tenant", "user", "agent", "created_at")


class StoredPolicy(NamedTuple):
    """A policy, and whose it is."""

    tenant: str
    user: str
    policy: Policy


def list_policies(
    connection: Connection, tenant: str | None, user: str | None = None, after: str = "", most: int | None = None
) -> list[StoredPolicy]:
    """Return the policies of a tenant (`None`: of all), perhaps of one user, by their ids."""
    rows = select(policies).where(policies.c.id > after).order_by(policies.c.id).limit(most)
    rows = rows if tenant is None else rows.where(policies.c.tenant == tenant)
    rows = rows if user is None else rows.where(policies.c.user == user)
    return [
        StoredPolicy(row.tenant, row.user, Policy(row.id, row.agent, created_at=row.created_at, **row.body))
        for row in connection.execute(rows)
    ]


def keep_policy(connection: Connection, tenant: str, user: str, policy: Policy) -> None:
    """Keep a policy, if it is not there."""
    body: dict[str, Any] = asdict(policy)
    placed = {name: body.pop(name) for name in _PLACED if name in body}
    insert_once(connection, policies, placed | {"tenant": tenant, "user": user, "body": body})


def revoke_policy(connection: Connection, author: Author, tenant: str | None, user: str | None, name: str) -> bool:
    """Remove a policy of a tenant (`None`: of any), perhaps of one user; return whether it was there."""
    wanted = [policies.c.id == name]
    wanted += [] if tenant is None else [policies.c.tenant == tenant]
    wanted += [] if user is None else [policies.c.user == user]
    row = connection.execute(delete(policies).where(*wanted).returning(policies.c.tenant)).first()
    if row is not None:
        record(connection, author, row.tenant, "policy.revoked", name)
    return row is not None


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """What `database` knows of a user (`None`: nobody in particular) of a tenant. `asked` is called when what was used
    is asked for, so that it is counted at once from then on."""

    database: Database
    tenant: str
    user: str | None
    asked: Callable[[], None] = lambda: None

    async def used_today(self) -> UserUse:
        """Return what the user's runs used today, in all processes. Raises `StoreUnavailable`."""
        self.asked()
        if self.user is None:
            return UserUse()
        work = partial(used_by_user, tenant=self.tenant, user=self.user, day=day_of(CLOCK.now()))
        used = await self.database.read(work, small=True)
        return UserUse(used.runs, used.tokens, used.cost / NANOS)

    async def policies(self) -> list[Policy]:
        """Return what is always allowed. Raises `StoreUnavailable`."""
        if self.user is None:
            return []
        found = await self.database.read(partial(list_policies, tenant=self.tenant, user=self.user), small=True)
        return [one.policy for one in found]

    async def keep(self, policy: Policy) -> bool:
        """Keep a policy; nobody in particular has none. Raises `StoreUnavailable`."""
        if self.user is None:
            return False
        await self.database.write(partial(keep_policy, tenant=self.tenant, user=self.user, policy=policy))
        return True
