"""What a run says on its thread: the text before its tool calls, and its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..events import Event, Finished, Replied, Stopped
from ..schema import StopReason
from ..store.log import Entry
from ..store.rows import RunRow
from .citations import Citations

_REASONS = {
    "cancelled": "run_cancelled",
    "expired": "run_expired",
    "failed": "run_failed",
    "incomplete": "max_tokens",
}


def derived_id(prefix: str, *parts: str | int) -> str:
    """An id that follows from `parts`: whoever reads the same log finds the same."""
    return prefix + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:24]


def said_in(entry: Entry) -> tuple[str, bool]:
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


def cut_short(event: Event) -> str:
    """Why a message was not finished when the run ended with `event`."""
    reason = event.reason if isinstance(event, Stopped) else None
    names = {StopReason.CANCELLED: "run_cancelled", StopReason.TOKEN_BUDGET_EXCEEDED: "max_tokens"}
    return names.get(reason, "run_failed") if reason else "run_failed"


def message_id(run_id: str, ordinal: int) -> str:
    """The id of the message of a run, the first being 0."""
    return derived_id("msg_", run_id, "message", ordinal)


def messages_of(run: RunRow, log: Sequence[Entry], status: str) -> Iterator[Mapping[str, Any]]:
    """The rows of the messages that a run, which came to `status`, makes on its thread."""
    if run.thread_id is None:
        return
    ordinal, citations = 0, Citations(run.request)
    for entry in log:
        citations.see(entry.event)
        text, whole = said_in(entry)
        if not text:
            continue
        yield {
            "tenant": run.tenant,
            "id": message_id(run.id, ordinal),
            "created_at": int(entry.at),
            "thread_id": run.thread_id,
            "run_id": run.id,
            "body": message_body(
                run,
                text,
                int(entry.at),
                None if whole else _REASONS.get(status, "run_failed"),
                citations.annotations(text),
            ),
        }
        ordinal += 1


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
