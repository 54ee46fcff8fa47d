"""Answers to what a waiting run asks, whatever API it came from, by a person who looks at it: in the studio, or at the
command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from ...runs.submissions import FurtherRequest
from ...store.audit_author import Author
from ...store.run_row import RunRow
from ..content.tool_outputs import submission_digest
from ..run_session import answer_calls


def answer_run(
    connection: Connection, author: Author, run: RunRow, outputs: Sequence[tuple[str, str]], ttl: int
) -> tuple[RunRow, bool]:
    """Answer the calls that a run waits for with `outputs`, by the client's ids of the calls. It then has `ttl`
    seconds. Return its row, and whether this is new. Raises `ApiError` and `StoreConflict`."""
    return answer_calls(connection, author, run, outputs, ttl, further=_further(run, outputs))


def _further(run: RunRow, outputs: Sequence[tuple[str, str]]) -> FurtherRequest | None:
    """Return the request that the run's client would have made: its API shows one for each time that a run resumes."""
    calls = [call for call, _ in outputs]
    if run.kind == "response":
        given: Any = run.submissions[-1].asked if run.submissions else run.request["asked"]
        items = [{"type": "function_call_output", "call_id": call, "output": said} for call, said in outputs]
        return FurtherRequest(given, items, None, calls)
    if run.kind == "a2a":
        parts = [{"text": said} for _, said in outputs]
        message = {"messageId": f"msg_{submission_digest(outputs)}", "role": "ROLE_USER", "parts": parts}
        return FurtherRequest({}, [message], None, calls)
    return None
