"""The messages that a run adds to its thread: the text before its tool calls, and its answer, with its citations; and
the model's thoughts, which are none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.events import Asked, Called, Event, Finished, Observed, Replied, Retried, Said, Stopped
from ..core.values import StopReason
from ..store.event_log import Entry
from ..store.run_row import RunRow

FILE_SEARCH = "file_search"
MARK = re.compile(r"【[0-9]{1,3}†[^【】]{0,80}】")


class Source(NamedTuple):
    """The file that a citation mark refers to."""

    file_id: str
    file_name: str


def mark(number: int, name: str) -> str:
    """Return the mark with which the model cites passage `number` of the file `name`."""
    shown = re.sub(r"[【】†\s]+", " ", name).strip()
    return f"【{number}†{shown[:80]}】"


def passages_in(output: str) -> list[dict[str, Any]]:
    """Return the passages in the output of a file search; empty if the search failed."""
    try:
        found = json.loads(output)["results"]
    except (ValueError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) else []


class Citations:
    """Collects the citation marks of a run's file searches; `sources` maps each mark to its file. `request` is the
    run's."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._searches = any(one.get("type") == FILE_SEARCH for one in request.get("tools") or ())
        self._calls: set[str] = set()
        self.sources: dict[str, Source] = {}

    def see(self, event: Event) -> None:
        """Record the marks that an event of the run's log introduces."""
        match event:
            case Called(action=action) if self._searches and action.tool == FILE_SEARCH:
                self._calls.add(action.id)
            case Observed(observation=seen) if seen.call_id in self._calls:
                self.sources |= {
                    one["cite"]: Source(one["file_id"], one["file_name"]) for one in passages_in(seen.text)
                }

    def annotations(self, text: str) -> list[dict[str, Any]]:
        """Return the citation marks in `text` as OpenAI annotations."""
        return [
            {
                "type": "file_citation",
                "text": found[0],
                "start_index": found.start(),
                "end_index": found.end(),
                "file_citation": {"file_id": self.sources[found[0]].file_id},
            }
            for found in (MARK.finditer(text) if self.sources else ())
            if found[0] in self.sources
        ]


_REASONS = {
    "cancelled": "run_cancelled",
    "expired": "run_expired",
    "failed": "run_failed",
    "incomplete": "max_tokens",
}
_CUT = "run_failed"
_NOT_WHOLE = {StopReason.REPLY_TRUNCATED: "max_tokens", StopReason.CONTENT_FILTERED: "content_filter"}


def derived_id(prefix: str, *parts: str | int) -> str:
    """Derive an id from `parts`: every reader of the same log derives the same id."""
    return prefix + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:24]


class MessageDelta(NamedTuple):
    """The next part of a run's message.

    `number` counts the run's messages from 0, and `began` is the message's start in Unix seconds. `text` is the whole
    text so far, `more` the part of it that is new. `reason` says why the message ended incomplete."""

    number: int
    began: float
    text: str
    more: str = ""
    ended: bool = False
    reason: str | None = None


class Speech:
    """Folds a run's log into its messages, for streaming and for the thread.

    A reply that was cut off, by a crash or by the engine, is requested again. While the new reply repeats the text
    already streamed, nothing is emitted. Where it differs, the old message ends as it stands, and a new one begins.
    """

    def __init__(self) -> None:
        self._number = 0
        self._began = 0.0
        self._told = ""
        self._arrived = ""  # the answer part of the arriving reply

    def hear(self, entry: Entry, status: str = "") -> Iterator[MessageDelta]:
        """Yield what a log entry adds. `status` is the run's final status if the entry is the last."""
        event = entry.event
        if isinstance(event, Said):
            if event.answer:
                self._arrived = self._arrived[: event.offset] + event.answer
                if not self._told.startswith(self._arrived):
                    yield from self._say(self._arrived, entry.at)
            return
        text, whole = message_text_in(entry)
        if text and (whole or not self._told.startswith(text)):
            yield from self._say(text, entry.at)
        if self._told and (
            text or isinstance(event, Finished | Stopped) or (isinstance(event, Replied) and event.reply.calls)
        ):
            reason = _NOT_WHOLE.get(event.reason) if isinstance(event, Stopped) else None
            yield self._end(reason if reason or (whole and text) else _REASONS.get(status, _CUT))

    def _say(self, text: str, at: float) -> Iterator[MessageDelta]:
        if not text.startswith(self._told):
            yield self._end(_CUT)
        if not self._told:
            self._began = at
        before, self._told = self._told, text
        if text != before:
            yield MessageDelta(self._number, self._began, text, text[len(before) :])

    def _end(self, reason: str | None) -> MessageDelta:
        ended = MessageDelta(self._number, self._began, self._told, ended=True, reason=reason)
        self._number, self._told = self._number + 1, ""
        return ended


class Thoughts:
    """Folds a run's log into the model's reasoning. `told` is what was streamed of the arriving reply's."""

    def __init__(self) -> None:
        self.told = ""

    def hear(self, event: Event) -> str:
        """Return what an event adds: a piece, or with the reply what was not streamed."""
        match event:
            case Said(reasoning=more):
                self.told += more
                return more
            case Replied(reply=reply):
                more, self.told = reply.reasoning.removeprefix(self.told), ""
                return more
            case Asked() | Retried():  # what came before is void
                self.told = ""
        return ""


def message_text_in(entry: Entry) -> tuple[str, bool]:
    """Return the text of a log entry (empty if none), and whether it is complete."""
    match entry.event:
        case Replied(reply=reply) if reply.calls:
            return reply.text.strip(), True
        case Finished(answer=answer):
            return answer, True
        case Stopped(reason=reason, answer=answer) if answer and reason is not StopReason.INVALID_ANSWER:
            return answer, True
        case Stopped(partial=partial):
            return partial, False
    return "", True


def message_id(run_id: str, ordinal: int) -> str:
    """Return the id of a run's message, counting from 0."""
    return derived_id("msg_", run_id, "message", ordinal)


def messages_of(run: RunRow, log: Sequence[Entry], status: str) -> Iterator[Mapping[str, Any]]:
    """Yield the message rows that a run, with final status `status`, adds to its thread."""
    if run.thread_id is None or run.kind == "response":  # its conversation stores items instead
        return
    speech, citations = Speech(), Citations(run.request)
    for entry in log:
        citations.see(entry.event)
        for said in speech.hear(entry, status if entry is log[-1] else ""):
            if said.ended:
                yield {
                    "tenant": run.tenant,
                    "id": message_id(run.id, said.number),
                    "created_at": int(said.began),
                    "thread_id": run.thread_id,
                    "run_id": run.id,
                    "body": message_body(run, said.text, int(entry.at), said.reason, citations.annotations(said.text)),
                }


def message_body(
    run: RunRow,
    text: str,
    at: int,
    reason: str | None,
    annotations: Sequence[Mapping[str, Any]] = (),
    role: str = "assistant",
) -> dict[str, Any]:
    """Return the body of a run's message. `reason` says why it is incomplete, if it is."""
    return {
        "role": role,
        "content": [{"type": "text", "text": {"value": text, "annotations": list(annotations)}}],
        "assistant_id": run.request.get("assistant_id"),
        "attachments": [],
        "metadata": {},
        "status": "incomplete" if reason else "completed",
        "completed_at": None if reason else at,
        "incomplete_at": at if reason else None,
        "incomplete_details": {"reason": reason} if reason else None,
    }
