"""Parses a client's answers to pending calls: outputs of its own functions, or a person's decisions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ...core.values import Always, Decision, File
from ...runs.status import Pending, pending_calls
from ...runs.submissions import describe_bad_edit
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.overrides import client_names
from ..http.api_errors import ApiError, invalid_value
from ..http.objects import call_id, run_of_call

_KINDS = ("approve", "edit", "reject", "respond")


class ParsedOutputs(NamedTuple):
    """Decisions by call id in the log; `mark` is a digest of all outputs. `outputs` are the calls of the client's own
    functions: what these gave is nobody's decision."""

    decisions: Mapping[str, Decision]
    mark: str
    outputs: frozenset[str] = frozenset()


def parse_submission(
    run: RunRow, outputs: Sequence[tuple[str, str]], files: Mapping[str, Sequence[Mapping[str, Any]]] = {}
) -> ParsedOutputs | None:
    """Return the decisions in `outputs`, which are by client call id, as are the `files` of them that the model is
    shown; `None` if the same outputs were submitted before.
    Raises `ApiError` if the run does not wait, or unless there is exactly one output per call."""
    mark = submission_digest(outputs)
    if run.submitted(mark):
        return None
    if run.status != "requires_action":
        raise ApiError(400, f'Runs in status "{run.status}" do not accept tool outputs.')
    waiting = {call_id(run.id, one.action.id, one.asked): one for one in pending_calls(run)}
    given = [call for call, _ in outputs]
    if sorted(given) != sorted(waiting):
        raise ApiError(400, f"Expected tool outputs for call_ids {list(waiting)}, got {given}")
    said, own = dict(outputs), client_names(run.request)
    answered = frozenset(one.action.id for one in waiting.values() if one.action.tool in own)
    decisions: dict[str, Decision] = {}
    for call, one in waiting.items():
        decision = parse_decision(run.request, one, said[call], run.user)
        shown = tuple(File(**file) for file in files.get(call, ())) if one.action.id in answered else ()
        decisions[one.action.id] = replace(decision, files=shown) if shown else decision
    if problem := describe_bad_edit(run, decisions):
        raise ApiError(400, problem)
    return ParsedOutputs(decisions, mark, answered)


def submission_digest(outputs: Sequence[tuple[str, str]]) -> str:
    """Return a digest of `outputs`, whatever their order."""
    return hashlib.sha256(json.dumps(sorted(outputs)).encode()).hexdigest()[:32]


def check_decided(connection: Connection, scope: TenantView, call: str | None, param: str) -> None:
    """Raise `ApiError` if a run waits for a decision on this call, which a request answers, but not at its end: what
    follows would be heard, and the decision dropped."""
    run_id = None if call is None else run_of_call(call)
    run = None if run_id is None else find_own_run(connection, scope, run_id)
    if run is None or run.status != "requires_action":
        return
    for one in pending_calls(run):
        if call_id(run.id, one.action.id, one.asked) == call and one.action.tool not in client_names(run.request):
            problem = (
                f"the decision on the call of '{one.action.tool}' must come last. Send what follows it in a request of "
                "its own, once the call was answered"
            )
            raise invalid_value(param, problem)


def parse_decision(request: Mapping[str, Any], waiting: Pending, output: str, user: str | None = None) -> Decision:
    """Parse the output of a call. For a client function it is the result. Otherwise it is a person's decision:
    `approve`, `reject`, JSON such as `{"decision": "edit", "arguments": {…}}`, to which `"always"` may be added for the
    run's `user`, or any other text, which becomes the
    tool's result. Raises `ApiError` for an invalid decision."""
    action, shown, _ = waiting
    if action.tool in client_names(request):
        return Decision("respond", message=output)
    word = output.strip().lower()
    if word in ("approve", "reject"):
        return Decision("approve" if word == "approve" else "reject")
    said = _read(output)
    if not isinstance(said, dict) or "decision" not in said:
        return Decision("respond", message=output)
    kind, arguments = said["decision"], said.get("arguments")
    if kind not in _KINDS:
        raise ApiError(
            400, f"Invalid value: {kind!r}. Supported values are: 'approve', 'edit', 'reject', and 'respond'."
        )
    if kind == "approve" and arguments is not None and arguments != shown:
        raise ApiError(400, "The approved arguments differ from those of the call; use 'edit' to change them.")
    if kind == "edit" and not isinstance(arguments, dict | str):
        raise ApiError(400, "Missing required parameter: 'arguments'.", code="missing_required_parameter")
    edited = arguments if kind == "edit" else None
    if isinstance(edited, dict) and isinstance(action.tool_input, str) and set(edited) == set(shown):
        (edited,) = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in edited.values())
    return Decision(kind, edited, str(said.get("message", "")), always=_parse_always(said.get("always"), shown, user))


def _parse_always(always: Any, shown: Mapping[str, Any], user: str | None) -> Always:
    """Return whether such calls are allowed to the run's user from now on. Raises `ApiError`."""
    if always in (None, False, ""):
        return ""
    if not user:
        raise ApiError(400, "The run is for no user, so there is none to whom the call could always be allowed.")
    patterns = isinstance(always, dict) and {name for name, one in always.items() if isinstance(one, str)} == {*always}
    if always not in ("call", "tool") and not (always and patterns and always.keys() <= shown.keys()):
        raise ApiError(
            400,
            "Invalid 'always': want 'call', for the same arguments; 'tool', for any; or patterns with * by the names "
            f"of arguments ({', '.join(shown) or 'there are none'}).",
        )
    return always  # type: ignore[no-any-return]


def _read(output: str) -> Any:
    """Return the JSON in an output, or `None`. Raises `ApiError` for a decision with duplicate keys, which people and
    programs might read differently."""
    doubled = False

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        doubled = doubled or len(dict(pairs)) < len(pairs)
        return dict(pairs)

    try:
        said = json.loads(output, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    if doubled and isinstance(said, dict) and "decision" in said:
        raise ApiError(400, "Invalid decision: an object has a duplicate key.")
    return said
