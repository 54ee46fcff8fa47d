"""Runs as `/v1/runs` shows them, whatever API they came from: their rows, steps, messages and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...core.events import Event, Stopped
from ...core.serialization import dump
from ...core.values import Step
from ...errors import RetinueError
from ...runs import Followed
from ...runs.run_view import RunView, states_in, turn_of
from ...runs.status import pending_calls
from ...runs.thread_messages import MessageDelta
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ..agents.overrides import client_names
from ..http.api_errors import ApiError
from ..http.objects import Object, last_error, required_action, usage_object
from ..http.sse import DONE, RETRY, frame
from ..run_session import Projection

_WITHHELD = {  # for the operator alone: the agent's prompts, and an engine's own words, which may name its address
    "started": ("instructions",),
    "asked": ("messages",),
    "compacted": ("pinned", "texts"),
    "retried": ("problem",),
    "judged": ("about",),
}


def summary_object(run: RunRow) -> Object:
    """Return what a run's row says."""
    waits = run.status == "requires_action" and len(run.submissions) not in hidden_turns(run)
    is_response = run.kind == "response"
    return {
        "id": run.id,
        "object": "run",
        "created_at": run.created_at,
        "kind": run.kind,
        "model": run.agent,
        "user": run.user,
        "status": run.status,
        "thread_id": None if is_response else run.thread_id,
        "conversation_id": run.thread_id if is_response else None,
        "forked_from": run.request.get("forked_from"),
        "imported_from": run.request.get("imported_from"),
        "parent_run_id": run.parent_id,
        "root_run_id": run.root_id,
        "call_id": run.call_id,
        "callers": list(run.request.get("callers") or ()),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "expires_at": run.expires_at if run.active else None,
        "required_action": _required_action(run) if waits else None,
        "last_error": last_error(run),
        "incomplete_details": {"reason": run.incomplete} if run.incomplete else None,
        "usage": None if run.usage is None else usage_object(run.usage),
        "metadata": run.metadata,
    }


def _required_action(run: RunRow) -> Object:
    """Return what a run waits for, and of each call for whom: a `person` who approves, or the `client` whose function
    it is."""
    action = required_action(run)
    own = client_names(run.request)
    for call, waiting in zip(action["submit_tool_outputs"]["tool_calls"], pending_calls(run), strict=True):
        call["waits_for"] = "client" if waiting.action.tool in own else "person"
    return action


def run_detail(view: RunView) -> Object:
    """Return a run with its steps and messages so far."""
    shown = view.without(hidden_turns(view.run))
    more = {"cost": view.usage.cost, "reasoning_tokens": view.usage.reasoning_tokens}
    return {
        **summary_object(view.run),
        "usage": {**usage_object(view.usage), **{name: value for name, value in more.items() if value}},
        "steps": [_step(step) for step in shown.steps],
        "messages": [_message(said) for said in shown.messages],
        "unsent": sorted(view.unsent),
    }


def _step(step: Step) -> Object:
    calls = [
        {"id": one.id, "tool": one.tool, "input": one.tool_input, "output": seen.text, "outcome": seen.outcome}
        for one, seen in zip(step.actions, step.observations, strict=True)
    ]
    return {"object": "run.step", "calls": calls}


def _message(said: MessageDelta) -> Object:
    status = ("incomplete" if said.reason else "completed") if said.ended else "in_progress"
    return {"object": "run.message", "created_at": int(said.began), "content": said.text, "status": status}


def event_object(entry: Entry, *, hidden: bool, prompts: bool) -> Object:
    """Return an event. `withheld` names the fields that are left out; with `prompts`, only those that nobody sees. Of
    what a vendor wants back, its size is shown."""
    kind, payload = dump(entry.event)
    data: dict[str, Any] = json.loads(payload)
    for one in states_in(data):
        one["state"] = {"origin": one["state"]["origin"], "characters": len(one["state"]["turn"])}
    kept = () if prompts else withheld_fields(entry.event)
    withheld = sorted(data) if hidden else list(kept)
    return {
        "id": str(entry.seq),
        "object": "run.event",
        "created_at": entry.at,
        "type": kind,
        "data": {name: value for name, value in data.items() if name not in withheld},
        "withheld": withheld,
    }


def withheld_fields(event: Event) -> list[str]:
    """Return the fields of an event that are only for keys with the scope `prompts`."""
    foreign = ("detail",) if isinstance(event, Stopped) and event.code else ()
    return [*_WITHHELD.get(type(event).__name__.lower(), ()), *foreign]


def hidden_turns(run: RunRow) -> frozenset[int]:
    """Return the turns of a run whose contents are not shown: those that the client deleted, or asked not to be
    stored."""
    asked = [run.request, *((one.asked or {}) for one in run.submissions)]
    unstored = [turn for turn, given in enumerate(asked) if given.get("store") is False]
    if run.kind == "chat" and unstored:
        unstored = list(range(len(asked)))
    return frozenset([*run.deleted, *unstored])


def check_shown(run: RunRow) -> None:
    """Raise `ApiError` for a run of which some turn is not shown: its log is not for anything else, either."""
    if hidden_turns(run):
        raise ApiError(400, f"The run '{run.id}' cannot be used: its contents were deleted, or not to be stored.")


class LogStream(Projection):
    """A run's log as an event stream: first and whenever its status changes the run (`run`), and each event (`event`),
    by whose number a client resumes."""

    tail = DONE

    def __init__(self, run: RunRow, since: int, *, prompts: bool) -> None:
        super().__init__(run)
        self.since = since
        self.head = RETRY + frame(summary_object(run), "run")
        self._prompts = prompts

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frame of an entry, or of the run's new row."""
        if isinstance(item, RunRow):
            self.run = item
            self.last = None if item.active else item
            yield frame(summary_object(item), "run")
        else:
            hidden = turn_of(self.run, item) in hidden_turns(self.run)
            yield frame(event_object(item, hidden=hidden, prompts=self._prompts), "event", item.seq)

    def needs_run(self, item: Followed) -> bool:
        """Whether the row may not say yet how the run resumed, which decides what of an entry is shown."""
        return isinstance(item, Entry) and self.run.rests

    def error_frame(self, error: RetinueError | ApiError) -> str:
        """Return the frame of an error that ends the stream."""
        if isinstance(error, ApiError):
            return frame(error.body, "error")
        raise error
