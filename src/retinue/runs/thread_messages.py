"""What a run says on its thread: the text before its tool calls, and its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.events import Finished, Replied, Said, Stopped
from ..core.values import StopReason
from ..store.event_log import Entry
from ..store.run_row import RunRow
from .citations import Citations

_REASONS = {
    "cancelled": "run_cancelled",
    "expired": "run_expired",
    "failed": "run_failed",
    "incomplete": "max_tokens",
}
_CUT = "run_failed"
_NOT_WHOLE = {StopReason.REPLY_TRUNCATED: "max_tokens", StopReason.CONTENT_FILTERED: "content_filter"}


def derived_id(prefix: str, *parts: str | int) -> str:
    """An id that follows from `parts`: whoever reads the same log finds the same."""
    return prefix + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:24]


class MessageDelta(NamedTuple):
    """What follows in a message of a run, the `number`-th from 0, begun at `began`: `more` after what was told of it,
    so that `text` is all of it so far. `reason`: why it ended without being finished."""

    number: int
    began: float
    text: str
    more: str = ""
    ended: bool = False
    reason: str | None = None


class Speech:
    """What a run says, told from its log: for those who read along, and for its thread.

    A reply that was cut, with the process or by the engine, is asked for again. As far as the new one begins with what
    was told of the first, nothing is told; where it does not, that message ends as it was told, and another begins.
    """

    def __init__(self) -> None:
        self._number = 0
        self._began = 0.0
        self._told = ""
        self._arrived = ""  # of the answer in the reply that is arriving

    def hear(self, entry: Entry, status: str = "") -> Iterator[MessageDelta]:
        """What an entry of the log adds; `status` is what the run came to, if it is the last."""
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


def message_text_in(entry: Entry) -> tuple[str, bool]:
    """What the run says in an entry of its log, empty if nothing; and whether that is all of it."""
    match entry.event:
        case Replied(reply=reply) if reply.calls:
            return reply.text.strip(), True
        case Finished(answer=answer):
            return answer, True
        case Stopped(answer=answer) if answer:
            return answer, True
        case Stopped(partial=partial):
            return partial, False
    return "", True


def message_id(run_id: str, ordinal: int) -> str:
    """The id of the message of a run, the first being 0."""
    return derived_id("msg_", run_id, "message", ordinal)


def messages_of(run: RunRow, log: Sequence[Entry], status: str) -> Iterator[Mapping[str, Any]]:
    """The rows of the messages that a run, which came to `status`, makes on its thread."""
    if run.thread_id is None or run.request.get("kind") == "response":  # whose conversation has items
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
    run: RunRow, text: str, at: int, reason: str | None, annotations: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What a message of a run is beside its ids; `reason`: why it is incomplete, if it is."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": {"value": text, "annotations": list(annotations)}}],
        "assistant_id": run.request.get("assistant_id"),
        "attachments": [],
        "metadata": {},
        "status": "incomplete" if reason else "completed",
        "completed_at": None if reason else at,
        "incomplete_at": at if reason else None,
        "incomplete_details": {"reason": reason} if reason else None,
    }
