"""What one tenant may see and change: every query for somebody goes through here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, insert, select, update

Kept = Row[Any]


class Page(NamedTuple):
    """Which part of a list: at most `limit` items, after (or before) the one of that id."""

    limit: int = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may keep: bytes of files, and as many again of their texts in vector stores; files, and as many
    again in vector stores; vector stores."""

    bytes: int = 10_000_000_000
    files: int = 100_000
    stores: int = 10_000


class TenantView:
    """The tables as `tenant` sees them. What belongs to others is not there. `key_id` is the key by which it asks,
    `room` the number of runs that may be under way or queued for that key (`None`: any), `scopes` what it may do
    (`None`: all), and `quota` what may be kept for the tenant (`None`: any amount)."""

    def __init__(
        self,
        tenant: str,
        key_id: str | None = None,
        room: int | None = None,
        scopes: tuple[str, ...] | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.tenant = tenant
        self.key_id = key_id
        self.room = room
        self.scopes = scopes
        self.quota = quota

    def find(self, connection: Connection, table: Table, id: str) -> Kept | None:  # noqa: A002
        """The row of this id."""
        return connection.execute(select(table).where(*self._own(table), table.c.id == id)).first()

    def page(
        self, connection: Connection, table: Table, page: Page, *where: ColumnElement[bool]
    ) -> tuple[list[Kept], bool]:
        """The rows of a page, in its order, and whether there are more after them. An unknown `after` or `before`
        is as if it were not given."""
        query = select(table).where(*self._own(table), *where)
        rising = page.order == "asc"
        for id_, forward in ((page.after, True), (page.before, False)):
            at = None if id_ is None else self.find(connection, table, id_)
            if at is not None:
                query = query.where(table.c.number > at.number if rising == forward else table.c.number < at.number)
        backwards = page.before is not None and page.after is None  # then those next to `before`
        order = table.c.number.asc() if rising != backwards else table.c.number.desc()
        rows = list(connection.execute(query.order_by(order).limit(page.limit + 1)))
        more, rows = len(rows) > page.limit, rows[: page.limit]
        return (rows[::-1] if backwards else rows), more

    def add(self, connection: Connection, table: Table, values: Mapping[str, Any]) -> Kept:
        """Add a row; as it is then."""
        self.insert(connection, table, values)
        found = self.find(connection, table, values["id"])
        assert found is not None
        return found

    def insert(self, connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
        """Likewise, without reading it again."""
        connection.execute(insert(table).values(tenant=self.tenant, **values))

    def change(self, connection: Connection, table: Table, id: str, values: Mapping[str, Any]) -> Kept | None:  # noqa: A002
        """Change the row of this id; as it is then, `None` if there is none."""
        connection.execute(update(table).where(*self._own(table), table.c.id == id).values(**values))
        return self.find(connection, table, id)

    def remove(self, connection: Connection, table: Table, *where: ColumnElement[bool]) -> int:
        """Delete the rows for which `where` holds; how many there were."""
        return connection.execute(delete(table).where(*self._own(table), *where)).rowcount

    def _own(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return (table.c.tenant == self.tenant,)
