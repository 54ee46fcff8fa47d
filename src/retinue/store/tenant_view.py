"""Isolation: every query on behalf of a tenant, or of a user of it, goes through `TenantView`."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, delete, select, update
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from ..core.run_context import Incoming
from .audit_log import SERVER, Author
from .prepared_statements import Prepared, bound_insert


class Kept(Protocol):
    """A stored row: its columns are its attributes."""

    def __getattr__(self, name: str) -> Any:
        """Return the value of a column."""


class Page(NamedTuple):
    """A page of a list: at most `limit` rows, after (or before) the row with that id."""

    limit: int = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """A tenant's storage limits. `bytes` limits files and, separately, their text in vector stores; `files` limits
    files and, separately, files in vector stores; `stores` limits vector stores; `memories` limits the bytes of what is
    remembered."""

    bytes: int = 10_000_000_000
    files: int = 100_000
    stores: int = 10_000
    memories: int = 100_000_000


class TenantView:
    """The tables as `tenant` sees them, or one `user` of it, without the rows of others.

    Args:
        tenant: The tenant's name.
        key_id: The API key of the request.
        room: How many active or queued runs the key may have (`None`: unlimited).
        scopes: What the key may do (`None`: everything).
        quota: The tenant's storage limits (`None`: unlimited).
        user: For whom the request is (`None`: for the tenant as a whole).

    `incoming` is the call over the network by which the request came, if an agent made it, and `trace` the headers of
    the caller's trace, if there is one. `process` is the server that answers, and `author` who asks. `check_begin`
    raises where the key may begin no run now, however many it may have."""

    process: str = ""
    author: Author = SERVER
    incoming: Incoming | None = None
    trace: Mapping[str, str] = {}
    check_begin: Callable[[], None] | None = None

    def __init__(
        self,
        tenant: str,
        key_id: str | None = None,
        room: int | None = None,
        scopes: tuple[str, ...] | None = None,
        quota: Quota | None = None,
        user: str | None = None,
    ) -> None:
        self.tenant = tenant
        self.key_id = key_id
        self.room = room
        self.scopes = scopes
        self.quota = quota
        self.user = user

    def find(self, connection: Connection, table: Table, id: str, *, lock: bool = False) -> Kept | None:  # noqa: A002
        """Return the row with this id, or `None`. With `lock`, other transactions can neither change nor lock nor
        delete it until this one ends; use it where what is written depends on what was read."""
        finding, row = _finding(table, lock, self._has_users(table))
        found = finding.rows(connection, {"of": self.tenant, "wanted": id, "for": self.user})
        return row(*found[0]) if found else None

    def page(
        self, connection: Connection, table: Table, page: Page, *where: ColumnElement[bool]
    ) -> tuple[list[Row[Any]], bool]:
        """Return the rows of a page, in its order, and whether more follow. An unknown `after` or `before` is
        ignored."""
        return self.select_page(connection, table, page, select(table).where(*where), table.c.number)

    def select_page(
        self, connection: Connection, table: Table, page: Page, query: Select[Any], number: ColumnElement[int]
    ) -> tuple[list[Row[Any]], bool]:
        """Return the page of what `query` finds in `table`, as `page` does. `number` is the column, equal to that
        of the table, that is in order in the index that the query uses."""
        query = query.where(*self.own(table))
        rising = page.order == "asc"
        for id_, forward in ((page.after, True), (page.before, False)):
            at = None if id_ is None else self._number(connection, table, id_, query.with_only_columns(number))
            if at is not None:
                query = query.where(number > at if rising == forward else number < at)
        backwards = page.before is not None and page.after is None  # take the rows next to `before`
        order = number.asc() if rising != backwards else number.desc()
        rows = list(connection.execute(query.order_by(order).limit(page.limit + 1)))
        more, rows = len(rows) > page.limit, rows[: page.limit]
        return (rows[::-1] if backwards else rows), more

    def _number(self, connection: Connection, table: Table, id_: str, listed: Select[Any]) -> int | None:
        """Return the place of a row: of one that is not `listed`, where that does not tell a user of another's."""
        anywhere = self.user is None or self._has_users(table)
        query = select(table.c.number).where(*self.own(table)) if anywhere else listed
        found: int | None = connection.execute(query.where(table.c.id == id_)).scalar()
        return found

    def add(self, connection: Connection, table: Table, values: Mapping[str, Any]) -> Kept:
        """Insert a row and return it."""
        self.insert(connection, table, values)
        found = self.find(connection, table, values["id"])
        assert found is not None
        return found

    def insert(self, connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
        """Insert a row without reading it back."""
        of_user = {"user": self.user} if self._has_users(table) else {}
        given = {"tenant": self.tenant, **of_user, **_defaults(table), **values}
        _inserting(table, tuple(given)).run(connection, given)

    def change(self, connection: Connection, table: Table, id: str, values: Mapping[str, Any]) -> Kept | None:  # noqa: A002
        """Update the row with this id and return it; `None` if it does not exist."""
        connection.execute(update(table).where(*self.own(table), table.c.id == id).values(**values))
        return self.find(connection, table, id)

    def remove(self, connection: Connection, table: Table, *where: ColumnElement[bool]) -> int:
        """Delete the rows matching `where`. Return their number."""
        return connection.execute(delete(table).where(*self.own(table), *where)).rowcount

    def own(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions of the rows that are seen."""
        return (table.c.tenant == self.tenant, *self.of_user(table))

    def of_user(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        """Return the condition of the user's rows, if there is a user."""
        return (table.c.user == self.user,) if self._has_users(table) else ()

    def own_name(self, name: str) -> str:
        """Return how a name is stored that the client chose: two users may choose the same."""
        return (
            name if self.user is None else hashlib.sha256(f"{self.user}\0{name}".encode("utf-8", "replace")).hexdigest()
        )

    def _has_users(self, table: Table) -> bool:
        return self.user is not None and "user" in table.c


@cache
def _finding(table: Table, lock: bool, of_user: bool) -> tuple[Prepared, Any]:
    """Return the query of a tenant's row, or of a user's, by its id, and the type of its result."""
    query = select(table).where(table.c.tenant == bindparam("of"), table.c.id == bindparam("wanted"))
    query = query.where(table.c.user == bindparam("for")) if of_user else query
    row = namedtuple(table.name, [column.name for column in table.c])  # type: ignore[misc]
    return Prepared(query.with_for_update(key_share=True) if lock else query), row


@cache
def _inserting(table: Table, names: tuple[str, ...]) -> Prepared:
    return bound_insert(table, names)


@cache
def _defaults(table: Table) -> Mapping[str, Any]:
    """Return the values of the columns that are not given; those of our tables are constants."""
    given = {column.name: column.default for column in table.c if column.default is not None}
    return {name: default.arg for name, default in given.items() if isinstance(default, ScalarElementColumnDefault)}
