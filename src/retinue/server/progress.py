"""A run's log as run steps and messages, and what of it is told when it is streamed (API of OpenAI's assistants)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..events import Called, Finished, Observed, Paused, Replied, Stopped
from ..runs import Followed, Piece
from ..runs.citations import Citations
from ..runs.messages import cut_short, derived_id, message_body, message_id, said_in
from ..runs.waiting import arguments_of
from ..schema import AgentAction, Usage
from ..store.log import Entry
from ..store.rows import RunRow
from ..tooling import Tool
from .hosted_steps import included, logs_delta, shown
from .objects import Object, message_object, run_object, tool_call

Told = tuple[str, Object]  # the event's name, and its object


class Progress:
    """What a run has come to, told piece by piece. `steps` are all of its run steps so far, oldest first; `tools` are
    its agent's, by name."""

    def __init__(self, run: RunRow, tools: Mapping[str, Tool]) -> None:
        self.steps: list[Object] = []
        self._citations = Citations(run.request)
        self._run = run
        self._given = tools
        self._told = ""  # the status that was told last
        self._asked: Counter[str] = Counter()  # how often a call waited, by the same
        self._calls: dict[str, Object] = {}  # of the open step, by the calls' ids in the log
        self._tools: Object | None = None
        self._saying: Object | None = None
        self._message: Object | None = None
        self._shown = ""
        self._messages = 0
        self._usage = Usage()

    def tell(self, item: Followed) -> Iterator[Told]:
        """What there is to tell of an entry of the log, a piece of a reply, or the run's new status."""
        for name, value in self._tell(item):
            yield name, shown(self._run.request, value, content=included(self._run.request.get("include")))

    def _tell(self, item: Followed) -> Iterator[Told]:
        match item:
            case RunRow():
                yield from self._status(item)
            case Piece():
                yield from self._begun(item.answer)
                yield from self._piece(item)
            case Entry():
                yield from self._begun(True)
                yield from self._entry(item)

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def _begun(self, something: object) -> Iterator[Told]:
        if something and self._told == "queued":
            yield from self._status(replace(self._run, status="in_progress"))

    def _status(self, run: RunRow) -> Iterator[Told]:
        self._run = run
        if run.status == self._told:
            return
        if not run.active:
            yield from self._close(run)
        self._told = run.status
        yield f"thread.run.{run.status}", run_object(run)

    def _close(self, run: RunRow) -> Iterator[Told]:
        """End what is still open when the run has ended otherwise than by an answer."""
        status = {"incomplete": "failed"}.get(run.status, run.status)
        at = next((run.state[f"{name}_at"] for name in (status, "completed") if f"{name}_at" in run.state), 0)
        for step in self.steps:
            if step["status"] == "in_progress":
                step["status"] = status
                step[f"{status}_at"] = at
                step["last_error"] = run.state.get("last_error") if status == "failed" else None
                yield f"thread.run.step.{status}", step

    # ── the log ──────────────────────────────────────────────────────────────────────────────────

    def _entry(self, entry: Entry) -> Iterator[Told]:
        self._citations.see(entry.event)
        match entry.event:
            case Replied(reply=reply):
                self._usage += reply.usage
            case Called(action=action) | Paused(action=action):
                yield from self._call(action, entry)
            case Observed(observation=observation):
                yield from self._observed(observation.call_id, observation.text, entry.at)
        text, whole = said_in(entry)
        if text:
            yield from self._said(text, whole, entry)
        elif isinstance(entry.event, Finished | Stopped):
            self._shown = ""

    def _call(self, action: AgentAction, entry: Entry) -> Iterator[Told]:
        if isinstance(entry.event, Paused):
            self._asked[action.id] += 1
        if action.id in self._calls:  # a person may have edited what it is given, or is asked once more
            shown = self._shown_call(action)
            self._calls[action.id]["id"] = shown["id"]
            self._calls[action.id]["function"]["arguments"] = shown["function"]["arguments"]
            return
        if self._tools is None:
            details: Object = {"type": "tool_calls", "tool_calls": []}
            self._tools = self._step("tools", action.id, "tool_calls", details, entry.at)
            yield from self._opened(self._tools)
        call = self._shown_call(action)
        call["function"]["output"] = None
        calls = self._tools["step_details"]["tool_calls"]
        delta = {"index": len(calls), **call, "function": dict(call["function"])}
        self._calls[action.id] = call
        calls.append(call)
        told = {"type": "tool_calls", "tool_calls": [delta]}
        yield (
            "thread.run.step.delta",
            {"id": self._tools["id"], "object": "thread.run.step.delta", "delta": {"step_details": told}},
        )

    def _shown_call(self, action: AgentAction) -> Object:
        return tool_call(self._run, action, arguments_of(action, self._given), self._asked[action.id])

    def answered(self, run: RunRow) -> Iterator[Told]:
        """What there is to tell when a client has said what came of its calls: they are done."""
        for call, decision in run.state.get("decisions", {}).items():
            if call in self._calls and decision["kind"] == "respond":
                yield from self._observed(call, decision["message"], time.time())

    def _observed(self, call: str, output: str, at: float) -> Iterator[Told]:
        if self._tools is None or call not in self._calls:
            return
        self._calls[call]["function"]["output"] = output
        yield from logs_delta(self._tools, self._calls[call])
        if all(one["function"]["output"] is not None for one in self._calls.values()):
            yield self._completed(self._tools, at)
            self._tools, self._calls = None, {}

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _piece(self, piece: Piece) -> Iterator[Told]:
        if piece.offset != len(self._shown) or not piece.answer:  # the beginning was missed: all comes at the end
            return
        yield from self._speak(0)
        self._shown += piece.answer
        yield self._delta(piece.answer)

    def _said(self, text: str, whole: bool, entry: Entry) -> Iterator[Told]:
        yield from self._speak(entry.at)
        message, step = self._message, self._saying
        assert message is not None
        assert step is not None
        if text.startswith(self._shown) and text != self._shown:
            yield self._delta(text[len(self._shown) :])
        at = int(entry.at)
        reason = None if whole else cut_short(entry.event)
        message |= message_body(self._run, text, at, reason, self._citations.annotations(text))
        message["created_at"] = message["created_at"] or at
        yield f"thread.message.{'completed' if whole else 'incomplete'}", message
        if whole:
            yield self._completed(step, entry.at)
        self._message, self._saying, self._shown = None, None, ""
        self._messages += 1

    def _speak(self, at: float) -> Iterator[Told]:
        """Begin a message, if none is being said."""
        if self._message is not None:
            return
        number = self._messages
        id_ = message_id(self._run.id, number)
        details = {"type": "message_creation", "message_creation": {"message_id": id_}}
        self._saying = self._step("message", number, "message_creation", details, at)
        yield from self._opened(self._saying)
        body = message_body(self._run, "", 0, None)
        body |= {"content": [], "status": "in_progress", "completed_at": None}
        kept = {"id": id_, "created_at": int(at) or self._run.created_at, "thread_id": self._run.thread_id}
        self._message = message_object({**kept, "run_id": self._run.id, "body": body})
        yield "thread.message.created", self._message
        yield "thread.message.in_progress", self._message

    def _delta(self, text: str) -> Told:
        assert self._message is not None
        content = [{"index": 0, "type": "text", "text": {"value": text, "annotations": []}}]
        return (
            "thread.message.delta",
            {"id": self._message["id"], "object": "thread.message.delta", "delta": {"content": content}},
        )

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _step(self, kind: str, which: str | int, type_: str, details: Object, at: float) -> Object:
        step = {
            "id": derived_id("step_", self._run.id, kind, which),
            "object": "thread.run.step",
            "created_at": int(at) or self._run.created_at,
            "assistant_id": self._run.request.get("assistant_id"),
            "thread_id": self._run.thread_id,
            "run_id": self._run.id,
            "type": type_,
            "status": "in_progress",
            "step_details": details,
            "metadata": {},
            "usage": None,
        }
        step |= dict.fromkeys(("last_error", "expires_at", "expired_at", "cancelled_at", "failed_at", "completed_at"))
        self.steps.append(step)
        return step

    def _opened(self, step: Object) -> Iterator[Told]:
        yield "thread.run.step.created", step
        yield "thread.run.step.in_progress", step

    def _completed(self, step: Object, at: float) -> Told:
        usage: dict[str, Any] = {
            "prompt_tokens": self._usage.input_tokens,
            "completion_tokens": self._usage.output_tokens,
            "total_tokens": self._usage.total_tokens,
        }
        self._usage = Usage()
        step |= {"status": "completed", "completed_at": int(at), "usage": usage}
        return "thread.run.step.completed", step
