"""Looks up what a request's path names, and paginates lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from sqlalchemy import ColumnElement, Connection, Table

from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import Kept, Page, TenantView
from .api_errors import not_found
from .objects import Object, listed
from .validation import invalid_value

_METADATA = re.compile(r"metadata\[(.*)\]")


def find_row(
    connection: Connection, scope: TenantView, table: Table, id_: str, what: str = "", *, lock: bool = False
) -> Kept:
    """Return the row with this id, locked as `TenantView.find` does. Raises `ApiError` (404) that says there is no such
    `what`, by default what the table is named for."""
    row = scope.find(connection, table, id_, lock=lock)
    if row is None:
        raise not_found(what or table.name.removesuffix("s").replace("_", " "), id_)
    return row


async def page_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
    before: str | None = None,
) -> Page:
    """Return the page that a request asks for."""
    return Page(limit, order, after, before)


async def ascending_page_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "asc",
    after: str | None = None,
) -> Page:
    """Return the page that a request asks for, in a list that is oldest first by default."""
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
    """Return a page of the rows matching `where`, each converted by `shown`."""
    rows, more = scope.page(connection, table, page, *where)
    return listed([shown(row) for row in rows], more)


def list_objects(objects: Sequence[Object], page: Page) -> Object:
    """Return a page of `objects`, which are given oldest first."""
    objects = objects if page.order == "asc" else objects[::-1]
    ids = [one["id"] for one in objects]
    begin = ids.index(page.after) + 1 if page.after in ids else 0
    end = ids.index(page.before) if page.before in ids else len(ids)
    if page.before in ids and page.after not in ids:
        return listed(objects[max(0, end - page.limit) : end], end > page.limit)
    return listed(objects[begin : min(end, begin + page.limit)], end - begin > page.limit)


async def metadata_filter(request: Request) -> Mapping[str, str]:
    """Return the metadata that the runs of a list must have: `metadata[NAME]=VALUE` in the query. Raises `ApiError` for
    a name that such a parameter cannot express."""
    wanted = {found[1]: value for name, value in request.query_params.items() if (found := _METADATA.fullmatch(name))}
    if unusual := [name for name in wanted if '"' in name or "\\" in name]:
        problem = f"cannot filter by a name with a quotation mark or a backslash: {unusual[0]!r:.80}"
        raise invalid_value("metadata", problem)
    return wanted


WantedMetadata = Annotated[Mapping[str, str], Depends(metadata_filter)]


def own_run(connection: Connection, scope: TenantView, id_: str, *, lock: bool = False) -> RunRow:
    """Return the run with this id; `lock` locks it until the transaction ends. Raises `ApiError` (404) if it does not
    exist."""
    run = find_own_run(connection, scope, id_, lock=lock)
    if run is None:
        raise not_found("run", id_)
    return run


def deletion_object(id_: str, what: str) -> Object:
    """Return the object that confirms a deletion."""
    return {"id": id_, "object": f"{what}.deleted", "deleted": True}
