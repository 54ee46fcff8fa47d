"""OpenAI's objects: their ids, stored rows as objects with every key present, and what a request's path names or a list
of it pages through."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from sqlalchemy import ColumnElement, Connection, Table

from ...core.values import AgentAction, Usage
from ...runs.run_view import RunView, read_run
from ...runs.status import pending_calls
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import Kept, Page, TenantView
from .api_errors import invalid_value, not_found

Object = dict[str, Any]
_METADATA = re.compile(r"metadata\[(.*)\]")
_ENDED = ("cancelled", "failed", "completed")
_INCOMPLETE = ("max_completion_tokens", "max_prompt_tokens")  # the message tells of content filters
_AS_ASKED = ("temperature", "top_p", "max_prompt_tokens", "max_completion_tokens")


def new_id(prefix: str) -> str:
    """Return a new id, such as `thread_…`; file ids begin with `file-`."""
    return f"{prefix}{'-' if prefix == 'file' else '_'}{secrets.token_hex(12)}"


def assistant_object(row: Kept) -> Object:
    """Return the API object of an assistant row."""
    return {"id": row.id, "object": "assistant", "created_at": row.created_at, **row.body}


def thread_object(row: Kept) -> Object:
    """Return the API object of a thread row."""
    return {"id": row.id, "object": "thread", "created_at": row.created_at, **row.body}


def message_object(row: Kept | Mapping[str, Any]) -> Object:
    """Return the API object of a message row, or of values about to be inserted."""
    names = ("id", "created_at", "thread_id", "run_id", "body")
    values = row if isinstance(row, Mapping) else {name: getattr(row, name) for name in names}
    return {**{name: values[name] for name in names[:-1]}, "object": "thread.message", **values["body"]}


def run_object(run: RunRow) -> Object:
    """Return the API object of a run."""
    asked, ended = run.request, run.ended_at
    ended_as = "completed" if run.status == "incomplete" else run.status
    return {
        "id": run.id,
        "object": "thread.run",
        "created_at": run.created_at,
        "thread_id": run.thread_id,
        "assistant_id": assistant_of(run),
        "status": run.status,
        "required_action": required_action(run) if run.status == "requires_action" else None,
        "last_error": last_error(run),
        "expires_at": run.expires_at if run.active else None,
        "started_at": run.started_at,
        **{f"{name}_at": ended if name == ended_as else None for name in _ENDED},
        "incomplete_details": {"reason": run.incomplete} if run.incomplete in _INCOMPLETE else None,
        "model": run.agent,
        "instructions": asked.get("instructions") or "",
        "tools": asked.get("tools") or [],
        "metadata": run.metadata,
        "usage": usage_object(run.usage) if run.usage is not None and not run.active else None,
        **{name: asked.get(name) for name in _AS_ASKED},
        "truncation_strategy": asked.get("truncation_strategy") or {"type": "auto", "last_messages": None},
        "response_format": asked.get("response_format") or "auto",
        "tool_choice": asked.get("tool_choice") or "auto",
        "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
    }


def last_error(run: RunRow) -> Object | None:
    """Return the code and the message of a run's error, or `None`."""
    return None if run.error is None else {"code": run.error.code, "message": run.error.message}


def usage_object(usage: Usage) -> Object:
    """Return token usage in the format of runs and steps."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def assistant_of(run: RunRow) -> str:
    """Return a run's `assistant_id`. A chat completion on a thread has no assistant, so its model takes that place."""
    return str(run.request.get("assistant_id") or run.agent)


def required_action(run: RunRow) -> Object:
    """Return the calls to run or to decide on."""
    calls = [tool_call(run, *one) for one in pending_calls(run)]
    return {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": calls}}


def tool_call(run: RunRow, action: AgentAction, arguments: Mapping[str, Any], asked: int = 1) -> Object:
    """Return a call as clients see it; `asked` is how often it has waited."""
    names = [one["function"]["name"] for one in run.request.get("tools") or () if one.get("type") == "function"]
    name = next((name for name in names if name.replace("-", "_") == action.tool), action.tool)  # as the client gave it
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id(run.id, action.id, asked), "type": "function", "function": function}


def question_for_a_person(action: AgentAction, arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call that asks for a person's decision on another call."""
    return json.dumps({"tool": action.tool, "arguments": arguments}, ensure_ascii=False)


def call_id(run_id: str, call: str, asked: int = 1) -> str:
    """Return the client's id of a call, unique over all runs. A call that waits again gets a new id, so that a late
    answer to the first is not taken for one to the second."""
    again = f"y{asked}" if asked > 1 else ""
    return f"call_{run_id.partition('_')[2]}x{call.replace('_', 'x').replace('/', 'z')}{again}"


def run_of_call(id_: str) -> str | None:
    """Return the id of the run that a call id belongs to, or `None`."""
    found = re.fullmatch(r"call_([0-9a-f]{24})x[a-z]+[0-9x]+(?:z[a-z]+[0-9x]+)*+(?:y[0-9]+)?", id_)
    return f"run_{found[1]}" if found else None


def run_of_item(id_: str) -> str | None:
    """Return the id of the run that made an output item, by the item's id, or `None`."""
    found = re.fullmatch(r"[a-z]+_([0-9a-f]{24})p[0-9]{1,4}o[0-9]{1,5}", id_)
    return f"run_{found[1]}" if found else None


def listed(objects: Sequence[Object], more: bool) -> Object:
    """Return a page of a list."""
    ids = [one["id"] for one in objects] or [None]
    return {"object": "list", "data": list(objects), "first_id": ids[0], "last_id": ids[-1], "has_more": more}


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


def own_view(connection: Connection, scope: TenantView, id_: str) -> RunView:
    """Return the run with this id and its whole log. Raises `ApiError` (404) if it does not exist."""
    view = read_run(connection, scope, id_)
    if view is None:
        raise not_found("run", id_)
    return view


def deletion_object(id_: str, what: str) -> Object:
    """Return the object that confirms a deletion."""
    return {"id": id_, "object": f"{what}.deleted", "deleted": True}
