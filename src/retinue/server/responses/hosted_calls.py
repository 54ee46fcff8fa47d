"""Calls of hosted tools as items of a response, and what a stream tells of them, in OpenAI's shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.values import Observation
from ...runs.citations import FILE_SEARCH, passages_in
from ...store.run_row import RunRow
from ..assistants.hosted_steps import CODE_INTERPRETER
from ..wire.objects import Object

Told = tuple[str, Object]  # the event's name, and what is in it beside its place


def hosted_in(request: Mapping[str, Any]) -> frozenset[str]:
    """The hosted tools that a run's `request` has, by name."""
    types = {one.get("type") for one in request.get("tools") or ()}
    return frozenset(types & {FILE_SEARCH, CODE_INTERPRETER})


def item_type(tool: str) -> str:
    """The type of the item that shows a call of this tool."""
    return f"{tool}_call"


def begun(run: RunRow, tool: str, arguments: Mapping[str, Any]) -> Object:
    """What an item has when its call begins."""
    if tool == FILE_SEARCH:
        return {"status": "in_progress", "queries": [_given(arguments, "query")], "results": None}
    container = f"cntr_{run.id.partition('_')[2]}"  # of the run: a program finds nothing that another left there
    return {"status": "in_progress", "code": "", "container_id": container, "outputs": None}


def before(tool: str, arguments: Mapping[str, Any]) -> Iterator[Told]:
    """What is told of a call that begins."""
    yield f"response.{item_type(tool)}.in_progress", {}
    if tool == FILE_SEARCH:
        yield "response.file_search_call.searching", {}
        return
    code = _given(arguments, "code")
    yield "response.code_interpreter_call_code.delta", {"delta": code}
    yield "response.code_interpreter_call_code.done", {"code": code}
    yield "response.code_interpreter_call.interpreting", {}


def under_way(tool: str, arguments: Mapping[str, Any]) -> Object:
    """What of an item is another once that was told."""
    return {} if tool == FILE_SEARCH else {"code": _given(arguments, "code")}


def ended(kind: str, seen: Observation, *, well: bool) -> Object:
    """What an item of this type comes to have. `well`: the tool did what it was called for."""
    status = "completed" if well else "failed"
    if kind == item_type(FILE_SEARCH):
        return {"status": status, "results": [_result(one) for one in passages_in(seen.text)] if well else None}
    return {"status": status, "outputs": [{"type": "logs", "logs": seen.text}] if seen.text else []}


def after(kind: str, *, well: bool) -> Iterator[Told]:
    """What is told of a call that has ended; that it failed, its item says."""
    if well:
        yield f"response.{kind}.completed", {}


def _given(arguments: Mapping[str, Any], name: str) -> str:
    """The argument of a tool that takes one; `input` is what a model wrote that wrote no object."""
    return str(arguments.get(name, arguments.get("input", "")))


def _result(passage: Mapping[str, Any]) -> Object:
    same = {name: passage[name] for name in ("file_id", "score", "text")}
    return {**same, "filename": passage["file_name"], "attributes": passage.get("attributes") or {}}
