"""Conversations for an agent: made of a request's messages, of a thread's, and of the tool calls of earlier runs.

A stored turn is JSON: `role` (`user`, `assistant` or `tool`) and `content` (text). A user's or a tool's turn may have
`images`, which are files of any kind (`id`, `media_type`, `detail`, `name`). An assistant turn with calls has
`tool_calls` (`id`, `name`, `arguments` as JSON text); a tool turn has `tool_call_id` and `name`.

The tool calls of earlier runs have their results from those runs' logs, and what the model's vendor wants back with
them.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from ...core.events import Called, Event, Observed, Paused, Replied
from ...core.values import AgentAction, File, Message, Observation, Reply, Role
from ...errors import UsageError
from ...store.event_log import read_kinds
from ...store.run_queries import own_run_ids
from ...store.tenant_view import TenantView
from ...strategies.prompting.injection_guard import neutralize
from ..agents.overrides import inner_name
from ..http.objects import call_id, run_of_call, run_of_item
from .message_files import IMAGES, is_shown, shown_in

SYSTEM = ("system", "developer")
GO_ON = "Go on from where you stopped."
LOOK = "(Look at the file.)"
NO_ANSWER = "(There was no answer to this call.)"
_KINDS = ("called", "paused", "observed")
_OF_A_MODEL = re.compile(r"call_[0-9]+_[0-9]+")  # no question of a strategy, nor of a member
_ASKED_AGAIN = re.compile(r"y[0-9]+\Z")  # what ends the id of a call that waited again
_STRANGE = re.compile(r"[^A-Za-z0-9_]")
_NOUNS = {**dict.fromkeys(IMAGES, "an image"), "input_file": "a file", "file": "a file", "input_audio": "a sound"}


def conversation(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns of a request that brings its whole conversation. Tool outputs are placed right after their
    calls, whatever their order; a call without output is marked as unanswered."""
    answers = {
        one.get("tool_call_id"): (text_of(one.get("content")), one.get("images") or ())
        for one in said
        if one["role"] == "tool"
    }
    turns: list[dict[str, Any]] = []
    taken: set[str] = set()
    for one in said:
        if one["role"] in SYSTEM or one["role"] == "tool":
            continue
        text = text_of(one.get("content"))
        calls = [_call(call, number, taken) for number, call in enumerate(one.get("tool_calls") or ())]
        if calls:
            turns.append({"role": "assistant", "content": text, "tool_calls": [call for _, call in calls]})
            turns += [_answer(call, *answers.get(given, (NO_ANSWER, ()))) for given, call in calls]
        elif images := one.get("images"):
            turns.append({"role": one["role"], "content": text, "images": images})
        elif text.strip():
            turns.append({"role": one["role"], "content": text})
    return turns


def _call(call: Mapping[str, Any], number: int, taken: set[str]) -> tuple[str, dict[str, str]]:
    """Return a call's original id, and the call under an id that is unique in the conversation."""
    given, function = call["id"], call.get("function") or {}
    id_ = f"past_{given}" if _OF_A_MODEL.fullmatch(given) or not given else given
    while id_ in taken:
        id_ = f"{id_}_{number}"
    taken.add(id_)
    name = _STRANGE.sub("_", function.get("name") or "")[:64] or "a_tool"
    return given, {"id": id_, "name": inner_name(name), "arguments": function.get("arguments") or "{}"}


def _answer(call: Mapping[str, str], text: str, files: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    shown = {"images": list(files)} if files else {}
    return {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": text, **shown}


def truncate_history(
    said: Sequence[Mapping[str, Any]], truncation: Mapping[str, Any] | None
) -> Sequence[Mapping[str, Any]]:
    """Return the part of the conversation that a `truncation_strategy` keeps. `auto` keeps everything; the loop
    shortens what exceeds the context window. Calls and outputs stay with the message they led to."""
    last = (truncation or {}).get("last_messages")
    if not last or (truncation or {}).get("type") != "last_messages":
        return said
    messages = [at for at, one in enumerate(said) if not (one["role"] == "tool" or one.get("tool_calls"))]
    return said if len(messages) <= last else said[messages[-last - 1] + 1 :]


def question_in(said: Sequence[Mapping[str, Any]], otherwise: str = "") -> tuple[list[Message], Message]:
    """Split a conversation into its history and the question, the user's last message. If tools or the agent spoke
    after it, all turns are history, and the question is repeated, or asks to continue. Raises `UsageError` if there is
    nothing to answer."""
    turns = [turn for turn in map(read_turn, said) if turn.content.strip() or turn.calls or turn.role == "tool"]
    if not turns:
        turns = [Message("user", otherwise)]
    *before, last = turns
    if last.role == "user":
        if not last.content.strip():
            raise UsageError("There is no message to answer.")
        return before, last
    asked = next((turn.content for turn in reversed(before) if turn.role == "user"), GO_ON)
    return turns, Message("user", asked if last.role == "tool" else GO_ON)


def read_turn(turn: Mapping[str, Any]) -> Message:
    """Return a stored turn as a message for a model."""
    text = text_of(turn["content"])
    files = tuple(File(**one) for one in turn.get("images") or shown_in(turn["content"]))
    if turn["role"] == "tool":
        return Message("tool", neutralize(text), call_id=turn["tool_call_id"], tool=turn["name"], files=files)
    calls = tuple(
        AgentAction(one["name"], _input(one["arguments"]), id=one["id"]) for one in turn.get("tool_calls", ())
    )
    role: Role = "assistant" if turn["role"] == "assistant" else "user"
    return Message(role, text if text.strip() or not files else LOOK, calls, files=files)


def _input(arguments: str) -> str | dict[str, Any]:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return given if isinstance(given, dict) else arguments


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is text or parts. Images that the model is shown have none; other
    parts become a note that they cannot be shown. `Readable` checks those of the current request."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_part, content or ())))


def _part(part: Mapping[str, Any]) -> str:
    match part:
        case {"type": "text", "text": {"value": str() as text}} | {"type": "text", "text": str() as text}:
            return text
        case {"text": str() as text} | {"refusal": str() as text}:
            return text
        case {"type": str() as kind} if not is_shown(part):
            return f"({_NOUNS.get(kind, kind.replace('_', ' '))}, which cannot be shown to you)"
    return ""


# ── the calls of earlier runs ────────────────────────────────────────────────────────────────────────────────────────


def tool_exchanges(connection: Connection, run_ids: Iterable[str]) -> Mapping[str, list[dict[str, Any]]]:
    """Return each run's completed calls and their results as turns (see above), as far as its log
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
        done = [id_ for id_ in actions if id_ in seen]
        if done:
            calls = [_call_turn(call_id(run_id, id_), actions[id_]) for id_ in done]
            turns.append({"role": "assistant", "content": "", "tool_calls": calls})
            turns += [_answer(call, seen[id_].text) for call, id_ in zip(calls, done, strict=True)]
    return turns


def _call_turn(id_: str, action: AgentAction) -> dict[str, str]:
    given = action.tool_input
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"id": id_, "name": action.tool, "arguments": arguments}


# ── what a vendor wants back ─────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class _Turn:
    """A model's reply with its vendor's state, and the calls that were made of it, by their ids in the log."""

    run_id: str
    reply: Reply
    made: dict[str, AgentAction] = field(default_factory=dict)
    seen: dict[str, Observation] = field(default_factory=dict)

    def actions(self) -> dict[str, AgentAction]:
        """Return its calls in the order of the reply. One of an unknown tool is as the model wrote it."""
        ids = sorted({*self.made, *self.seen}, key=lambda id_: int(id_.rpartition("_")[2]))
        return {id_: self.made.get(id_, said) for id_, said in zip(ids, self.reply.calls, strict=False)}

    def messages(self, results: Mapping[str, Message]) -> Iterator[Message]:
        """Yield the turn and the results of its calls: `results`, else the texts in the log."""
        actions = {id_: replace(one, id=call_id(self.run_id, id_), log="") for id_, one in self.actions().items()}
        yield Message("assistant", self.reply.text, tuple(actions.values()), state=self.reply.state)
        for id_, call in actions.items():
            seen = Message("tool", neutralize(self.seen[id_].text) if id_ in self.seen else NO_ANSWER)
            yield replace(results.get(id_, seen), call_id=call.id, tool=call.tool)


def with_states(connection: Connection, scope: TenantView, turns: Sequence[Message]) -> list[Message]:
    """Return the turns of a conversation, those with calls as the model made them in the tenant's earlier runs, with
    what its vendor wants back.

    A client brings these turns without that. They are found by the ids that the server gave to the calls, or to the
    items that show them, as far as those runs' logs still exist. A turn comes back whole: with the calls of the
    server's own tools that the client was not shown.
    """
    calls = [call for turn in turns for call in turn.calls]
    run_ids = {run_id for call in calls if (run_id := run_of_call(call.id) or run_of_item(call.id)) is not None}
    if not run_ids:
        return list(turns)
    owners = _owners(calls, _turns_with_state(connection, own_run_ids(connection, scope, run_ids)))
    told: list[Message] = []
    left = deque(turns)
    while left:
        turn = _owner(left[0], owners)
        if turn is None:
            told.append(left.popleft())
            continue
        if told and told[-1] == Message("assistant", turn.reply.text.strip()):  # as an item of its own
            told.pop()
        results: dict[str, Message] = {}
        while left and (left[0].role == "tool" or _owner(left[0], owners) is turn):
            one = left.popleft()
            if one.call_id in owners:
                results[owners[one.call_id][1]] = one
        told += turn.messages(results)
    return told


def _turns_with_state(connection: Connection, run_ids: Iterable[str]) -> list[_Turn]:
    """Return the runs' replies whose vendors want something back, each run's in order."""
    found: list[_Turn] = []
    last: dict[str, _Turn | None] = {}
    for run_id, event in read_kinds(connection, run_ids, ("replied", *_KINDS)):
        if isinstance(event, Replied):
            last[run_id] = _Turn(run_id, event.reply) if event.reply.state and event.reply.calls else None
            found += [one for one in [last[run_id]] if one]
        elif (turn := last.get(run_id)) is None:
            continue
        elif isinstance(event, Observed) and _OF_A_MODEL.fullmatch(event.observation.call_id):
            turn.seen[event.observation.call_id] = event.observation
        elif isinstance(event, Called | Paused) and _OF_A_MODEL.fullmatch(event.action.id):
            turn.made[event.action.id] = event.action
    return found


def _owners(calls: Sequence[AgentAction], turns: Sequence[_Turn]) -> dict[str, tuple[_Turn, str]]:
    """Return the turns that made the calls of a conversation, and the calls' ids in their logs, by the conversation's
    ids. An item's id names only its run, so of that it is the next call of the same tool, if possible an equal one."""
    made = {call_id(one.run_id, id_): (one, id_) for one in turns for id_ in one.actions()}
    found = {call.id: made[known] for call in calls if (known := _ASKED_AGAIN.sub("", call.id)) in made}
    taken = set(found.values())
    for call in calls:
        if (run_id := run_of_item(call.id)) is None:
            continue
        fits = [
            ((turn, id_), action)
            for turn in turns
            for id_, action in turn.actions().items()
            if turn.run_id == run_id and action.tool == call.tool and (turn, id_) not in taken
        ]
        if fits:
            found[call.id] = next((one for one, action in fits if action.tool_input == call.tool_input), fits[0][0])
            taken.add(found[call.id])
    return found


def _owner(message: Message, owners: Mapping[str, tuple[_Turn, str]]) -> _Turn | None:
    """Return the turn that all calls of a message belong to, or `None`."""
    turns = {owners[call.id][0] if call.id in owners else None for call in message.calls}
    return turns.pop() if len(turns) == 1 else None
