"""What a database knows of a run's user: what its runs used today, and which calls people always allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, select

from ..core.user_records import Policy, UserUse
from .clock import CLOCK
from .database import Database
from .prepared_statements import insert_once
from .tables import policies
from .usage_sums import NANOS, day_of, used_by_user


def list_policies(connection: Connection, tenant: str, user: str) -> list[Policy]:
    """Return what is always allowed to a user of a tenant."""
    wanted = policies.c.tenant == tenant, policies.c.user == user
    return [read_policy(row) for row in connection.execute(select(policies).where(*wanted))]


def read_policy(row: Row[Any]) -> Policy:
    """Return the policy in a row."""
    return Policy(row.id, created_at=row.created_at, **row.body)


def keep_policy(connection: Connection, tenant: str, user: str, policy: Policy) -> None:
    """Keep a policy, if it is not there."""
    body = asdict(policy)
    placed = {"id": body.pop("id"), "created_at": body.pop("created_at"), "tenant": tenant, "user": user}
    insert_once(connection, policies, placed | {"body": body})


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
        return await self.database.read(partial(list_policies, tenant=self.tenant, user=self.user), small=True)

    async def keep(self, policy: Policy) -> bool:
        """Keep a policy; nobody in particular has none. Raises `StoreUnavailable`."""
        if self.user is None:
            return False
        await self.database.write(partial(keep_policy, tenant=self.tenant, user=self.user, policy=policy))
        return True
