"""Response items and stream events of hosted tool calls, in OpenAI's shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.values import Observation
from ...runs.citations import FILE_SEARCH, passages_in
from ...store.run_row import RunRow
from ..agents.overrides import CODE_INTERPRETER
from ..http.objects import Object

Told = tuple[str, Object]  # event name and fields, besides its position


def hosted_in(request: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the hosted tools in a run's `request`."""
    types = {one.get("type") for one in request.get("tools") or ()}
    return frozenset(types & {FILE_SEARCH, CODE_INTERPRETER})


def item_type(tool: str) -> str:
    """Return the item type of a tool's calls."""
    return f"{tool}_call"


def begun(run: RunRow, tool: str, arguments: Mapping[str, Any]) -> Object:
    """Return the fields of an item whose call begins."""
    if tool == FILE_SEARCH:
        return {"status": "in_progress", "queries": [_given(arguments, "query")], "results": None}
    container = f"cntr_{run.id.partition('_')[2]}"  # one per run; programs share no files in it
    return {"status": "in_progress", "code": "", "container_id": container, "outputs": None}


def before(tool: str, arguments: Mapping[str, Any]) -> Iterator[Told]:
    """Yield the events at the start of a call."""
    yield f"response.{item_type(tool)}.in_progress", {}
    if tool == FILE_SEARCH:
        yield "response.file_search_call.searching", {}
        return
    code = _given(arguments, "code")
    yield "response.code_interpreter_call_code.delta", {"delta": code}
    yield "response.code_interpreter_call_code.done", {"code": code}
    yield "response.code_interpreter_call.interpreting", {}


def under_way(tool: str, arguments: Mapping[str, Any]) -> Object:
    """Return the item fields that change once the start events were emitted."""
    return {} if tool == FILE_SEARCH else {"code": _given(arguments, "code")}


def ended(kind: str, seen: Observation, *, well: bool) -> Object:
    """Return the final item fields. `well` says whether the tool succeeded."""
    status = "completed" if well else "failed"
    if kind == item_type(FILE_SEARCH):
        return {"status": status, "results": [_result(one) for one in passages_in(seen.text)] if well else None}
    return {"status": status, "outputs": [{"type": "logs", "logs": seen.text}] if seen.text else []}


def after(kind: str, *, well: bool) -> Iterator[Told]:
    """Yield the events at the end of a call; a failure shows only in its item."""
    if well:
        yield f"response.{kind}.completed", {}


def _given(arguments: Mapping[str, Any], name: str) -> str:
    """Return the tool's argument. Plain text from a model is stored as `input`."""
    return str(arguments.get(name, arguments.get("input", "")))


def _result(passage: Mapping[str, Any]) -> Object:
    same = {name: passage[name] for name in ("file_id", "score", "text")}
    return {**same, "filename": passage["file_name"], "attributes": passage.get("attributes") or {}}
