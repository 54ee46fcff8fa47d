"""The tool calls of finished runs, as turns of a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from ..core.events import Called, Event, Observed, Paused
from ..core.values import AgentAction, Observation
from ..store.event_log import read_kinds
from .wire.objects import call_id

_KINDS = ("called", "paused", "observed")


def tool_exchanges(connection: Connection, run_ids: Iterable[str]) -> Mapping[str, list[dict[str, Any]]]:
    """Return each run's completed calls and their results as turns (see `conversation_history`), as far as its log
    still exists."""
    found: dict[str, list[Event]] = {}
    for run_id, event in read_kinds(connection, run_ids, _KINDS):
        found.setdefault(run_id, []).append(event)
    return {run_id: _turns(run_id, events) for run_id, events in found.items()}


def _turns(run_id: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    steps: dict[int, dict[str, AgentAction]] = {}
    seen: dict[str, Observation] = {}
    for event in events:
        if isinstance(event, Called | Paused):
            steps.setdefault(event.step, {})[event.action.id] = event.action
        elif isinstance(event, Observed):
            seen[event.observation.call_id] = event.observation
    turns: list[dict[str, Any]] = []
    for actions in steps.values():
        done = {call_id(run_id, id_): action for id_, action in actions.items() if id_ in seen}
        if done:
            turns.append({"role": "assistant", "content": "", "tool_calls": [_call(*one) for one in done.items()]})
            turns += [_answer(id_, action, seen[action.id]) for id_, action in done.items()]
    return turns


def _call(id_: str, action: AgentAction) -> dict[str, str]:
    given = action.tool_input
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"id": id_, "name": action.tool, "arguments": arguments}


def _answer(id_: str, action: AgentAction, seen: Observation) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": id_, "name": action.tool, "content": seen.text}
