"""Run step views of hosted tool calls, which have types of their own instead of `function`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...runs.citations import FILE_SEARCH, passages_in
from ..http.objects import Object

CODE_INTERPRETER = "code_interpreter"
_SERVER_TOOLS = "step_details.tool_calls[*].server_tools"  # an extension: OpenAI's assistants have no server-side tools
_CONTENT = "step_details.tool_calls[*].file_search.results[*].content"


def included(include: Sequence[str] | None) -> bool:
    """Whether `include[]` asks for the passages that file searches found."""
    return _CONTENT in (include or ())


def with_server_tools(include: Sequence[str]) -> bool:
    """Whether `include[]` asks for the calls of the agent's own tools."""
    return _SERVER_TOOLS in include


def is_hosted(request: Mapping[str, Any], name: str) -> bool:
    """Whether the named tool is a hosted one that the request enabled."""
    return any(one.get("type") == name for one in request.get("tools") or ())


def step_view(request: Mapping[str, Any], thing: Object, *, content: bool = False) -> Object:
    """Return a run step, or a step delta, with the request's hosted tool calls in OpenAI's shapes. `content` includes
    the text of file search results."""
    details = (thing.get("delta") or thing).get("step_details") or {}
    wishes = {one["type"]: one for one in request.get("tools") or () if one.get("type") != "function"}
    if not wishes or not details.get("tool_calls"):
        return thing
    calls = [_call(one, wishes, content) for one in details["tool_calls"]]
    told = {"step_details": {**details, "tool_calls": calls}}
    return {**thing, "delta": told} if "delta" in thing else {**thing, **told}


def logs_delta(step: Object, call: Object) -> Iterator[tuple[str, Object]]:
    """Yield the delta for a call whose output has arrived; only the code interpreter has one."""
    function = call["function"]
    if function["name"] == CODE_INTERPRETER:
        yield _delta(step, call, function={"name": CODE_INTERPRETER, "output": function["output"]})


def call_deltas(request: Mapping[str, Any], step: Object, call: Object) -> Iterator[tuple[str, Object]]:
    """Yield the deltas for a call added to `step`: first the call, then its arguments. Clients accumulate only what
    follows the first delta."""
    function = call["function"]
    yield _delta(step, call, id=call["id"], function={**function, "arguments": ""})
    if not is_hosted(request, function["name"]):
        yield _delta(step, call, function={"arguments": function["arguments"]})
    elif function["name"] != FILE_SEARCH:
        yield _delta(step, call, function={"name": function["name"], "arguments": function["arguments"]})


def _delta(step: Object, call: Object, **told: Any) -> tuple[str, Object]:
    index = step["step_details"]["tool_calls"].index(call)
    details = {"type": "tool_calls", "tool_calls": [{"index": index, "type": "function", **told}]}
    delta = {"id": step["id"], "object": "thread.run.step.delta", "delta": {"step_details": details}}
    return "thread.run.step.delta", delta


def _call(call: Object, wishes: Mapping[str, Any], content: bool) -> Object:
    name = call.get("function", {}).get("name")
    if name not in wishes:
        return call
    own = {key: value for key, value in call.items() if key not in ("type", "function")}
    inner = _search if name == FILE_SEARCH else _program
    return {**own, "type": name, name: inner(call, wishes[name], content)}


def _program(call: Object, wish: Mapping[str, Any], content: bool) -> Object:
    function = call["function"]
    number = {"index": 0} if "index" in call else {}  # in a delta
    logs = function.get("output")
    outputs = [] if logs is None else [{**number, "type": "logs", "logs": logs}]
    if "arguments" not in function:
        return {"outputs": outputs}
    given = json.loads(function["arguments"] or "{}")  # the arguments arrive after the call
    return {"input": str(given.get("code", given.get("input", ""))), "outputs": outputs}


def _search(call: Object, wish: Mapping[str, Any], content: bool) -> Object:
    output = call["function"].get("output")
    if output is None:
        return {}
    options: Mapping[str, Any] = (wish.get(FILE_SEARCH) or {}).get("ranking_options") or {}
    ranker = options.get("ranker") or "auto"
    return {
        "ranking_options": {"ranker": ranker, "score_threshold": options.get("score_threshold") or 0.0},
        "results": [_result(one, content) for one in passages_in(output)],
    }


def _result(passage: Mapping[str, Any], content: bool) -> Object:
    found = {name: passage[name] for name in ("file_id", "file_name", "score")}
    return found | ({"content": [{"type": "text", "text": passage["text"]}]} if content else {})
