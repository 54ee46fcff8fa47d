"""Run steps: read out of a run's log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from sqlalchemy import Connection

from ..store.log import read
from ..store.scope import Page, Scope
from .context import At
from .errors import not_found
from .objects import Object, listed
from .paging import page_of
from .progress import Progress
from .runs import found

router = APIRouter()


@router.get("/threads/{thread_id}/runs/{run_id}/steps")
async def list_all(thread_id: str, run_id: str, at: At, page: Annotated[Page, Depends(page_of)]) -> Object:
    """The steps of a run."""
    steps = await at.read(lambda connection, scope: steps_of(connection, scope, thread_id, run_id))
    if page.order == "desc":
        steps.reverse()
    ids = [step["id"] for step in steps]
    begin = ids.index(page.after) + 1 if page.after in ids else 0
    end = ids.index(page.before) if page.before in ids else len(steps)
    if page.before in ids and page.after not in ids:
        begin = max(0, end - page.limit)
    shown = steps[begin:end][: page.limit]
    return listed(shown, end - begin > page.limit)


@router.get("/threads/{thread_id}/runs/{run_id}/steps/{step_id}")
async def retrieve(thread_id: str, run_id: str, step_id: str, at: At) -> Object:
    """A step of a run."""
    steps = await at.read(lambda connection, scope: steps_of(connection, scope, thread_id, run_id))
    for step in steps:
        if step["id"] == step_id:
            return step
    raise not_found("run step", step_id)


def steps_of(connection: Connection, scope: Scope, thread_id: str, run_id: str) -> list[Object]:
    """The steps of a run so far, oldest first. Raises `ApiError` if it is not there."""
    run = found(connection, scope, thread_id, run_id)
    progress = Progress(run)
    for entry in read(connection, run_id):
        list(progress.tell(entry))
    list(progress.tell(run))
    return progress.steps
