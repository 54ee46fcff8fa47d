"""What an A2A server says about a task, as one text: how the task stands, then what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ..errors import ToolError

WORKING = ("submitted", "working", "unspecified")
_STATES = (*WORKING, "completed", "failed", "canceled", "rejected", "input-required", "auth-required")


class TaskReport(NamedTuple):
    """A task at some time. `text` is its answer, or what it says about its state."""

    state: str
    task: str = ""
    context: str = ""
    text: str = ""

    @property
    def works(self) -> bool:
        """Whether there is nothing to do but to wait."""
        return self.state in WORKING

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        return not self.works and not self.state.endswith("-required")

    def __str__(self) -> str:
        return f"{self.state} {quote(self.task, safe='')} {quote(self.context, safe='')}\n{self.text}"


def parse_report(text: str) -> TaskReport:
    """Return the report with this text. Raises `ToolError` if it is none."""
    head, _, rest = text.partition("\n")
    words = head.split(" ")
    if len(words) != 3 or words[0] not in _STATES:
        raise ToolError(f"{head[:80]!r} is not the state of a task")
    return TaskReport(words[0], unquote(words[1]), unquote(words[2]), rest)


def report_of(result: Any) -> TaskReport:
    """Return the report of a task, a message, a response or an event of a stream. An event of an artifact says no more
    than that the task works. Raises `ToolError` for anything else."""
    given = result if isinstance(result, Mapping) else {}
    if isinstance(message := given.get("message"), Mapping):
        return TaskReport("completed", text=text_of(message.get("parts")))
    if isinstance(update := given.get("statusUpdate"), Mapping):
        return _report(update, update.get("taskId"))
    if isinstance(given.get("artifactUpdate"), Mapping):
        return TaskReport("working")
    task = given.get("task", given)
    if isinstance(task, Mapping) and "status" in task:
        return _report(task, task.get("id"))
    raise ToolError(f"the agent answered with something that is neither a task nor a message: {str(result)[:80]!r}")


def text_of(parts: Any) -> str:
    """Return parts as text: data as JSON, on lines of its own; files are named, and not fetched. Texts that follow each
    other are joined as they are, since a stream arrives in pieces."""
    said = ""
    for part in parts if isinstance(parts, list) else ():
        plain = isinstance(part, Mapping) and isinstance(part.get("text"), str)
        text = _text(part)
        said += text if plain or not text else f"\n{text}\n"
    return said.replace("\n\n[", "\n[").strip()


def _report(task: Mapping[str, Any], id_: Any) -> TaskReport:
    status = task.get("status")
    status = status if isinstance(status, Mapping) else {}
    state = str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    if state not in _STATES or not isinstance(id_, str) or not id_:
        raise ToolError(f"the agent says of a task that its state is {str(status.get('state'))[:80]!r}")
    context = task.get("contextId")
    message = status.get("message")
    said = _said(message.get("parts")) if isinstance(message, Mapping) else ""
    artifacts = "\n\n".join(_artifacts(task.get("artifacts")))
    text = artifacts or said if state == "completed" else said or artifacts
    return TaskReport(state, id_, context if isinstance(context, str) else "", text)


def _said(parts: Any) -> str:
    """Return the texts of a status message; of one without any, whatever it has."""
    texts = [part for part in parts if isinstance(part, Mapping) and "text" in part] if isinstance(parts, list) else []
    return text_of(texts) or text_of(parts)


def _artifacts(given: Any) -> Iterator[str]:
    for artifact in given if isinstance(given, list) else ():
        if isinstance(artifact, Mapping) and (text := text_of(artifact.get("parts"))):
            yield text


def _text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    if isinstance(text := part.get("text"), str):
        return text
    if "data" in part:
        return json.dumps(part["data"], ensure_ascii=False)
    named = " ".join(str(part[name])[:200] for name in ("filename", "mediaType") if part.get(name))
    if isinstance(url := part.get("url"), str):
        return f"[a file, not fetched: {named} {url[:500]}]".replace("  ", " ")
    return f"[a file, not shown: {named}]" if "raw" in part else ""
