"""What a request's path names, or the 404 that says it is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query
from sqlalchemy import ColumnElement, Connection, Table, select

from ...store.run_row import RunRow
from ...store.tables import runs
from ...store.tenant_view import Kept, Page, TenantView
from .api_errors import not_found
from .objects import Object, listed


def find_row(connection: Connection, scope: TenantView, table: Table, id_: str) -> Kept:
    """The row of this id. Raises `ApiError` (404) if there is none."""
    row = scope.find(connection, table, id_)
    if row is None:
        raise not_found(table.name.removesuffix("s").replace("_", " "), id_)
    return row


async def page_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
    before: str | None = None,
) -> Page:
    """The page that a request asks for."""
    return Page(limit, order, after, before)


async def ascending_page_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "asc",
    after: str | None = None,
) -> Page:
    """The page that a request asks for of a list that begins with the oldest."""
    return Page(limit, order, after)


Wanted = Annotated[Page, Depends(page_of)]
Include = Annotated[Sequence[str], Query(alias="include[]")]
Rising = Annotated[Page, Depends(ascending_page_of)]


def list_rows(
    connection: Connection,
    scope: TenantView,
    table: Table,
    page: Page,
    shown: Callable[[Kept], Object],
    *where: ColumnElement[bool],
) -> Object:
    """A page of the rows for which `where` holds, each as `shown`."""
    rows, more = scope.page(connection, table, page, *where)
    return listed([shown(row) for row in rows], more)


def list_objects(objects: Sequence[Object], page: Page) -> Object:
    """Paginates a list of objects that are no rows, oldest first."""
    objects = objects if page.order == "asc" else objects[::-1]
    ids = [one["id"] for one in objects]
    begin = ids.index(page.after) + 1 if page.after in ids else 0
    end = ids.index(page.before) if page.before in ids else len(ids)
    if page.before in ids and page.after not in ids:
        return listed(objects[max(0, end - page.limit) : end], end > page.limit)
    return listed(objects[begin : min(end, begin + page.limit)], end - begin > page.limit)


def active_run(connection: Connection, thread_id: str) -> RunRow | None:
    """The run that holds a thread."""
    row = connection.execute(select(runs).where(runs.c.thread_id == thread_id, runs.c.holds)).first()
    return None if row is None else RunRow.of(row)


def deletion_object(id_: str, what: str) -> Object:
    """What is said of something that is gone."""
    return {"id": id_, "object": f"{what}.deleted", "deleted": True}
