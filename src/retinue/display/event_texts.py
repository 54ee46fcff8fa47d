"""What people are told of events: thoughts in replies, calls, figures, and prompts word for word."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from functools import partial

from ..core.events import Asked
from ..core.values import AgentAction, Message, Reply, Usage
from .terminal import clean

_DECIDED = re.compile(
    r"^[ \t>*_#`-]*(?:action|tool|follow[ _-]?up|(?:so the )?final[ _]answer|observation)\b[^:\n]{0,40}:",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"^[\s>*_#`-]*thought[ \t]*\d*[*_`]*:[*_`]*", re.IGNORECASE)
_IN_JSON = re.compile(r'"thought"\s*+:\s*+("(?:[^"\\]|\\.)*+")')


def read_thought(text: str) -> str:
    """Return the text of a reply before its action or answer; of a reply in JSON, which may be partial, its thought."""
    if text.lstrip().startswith(("{", "[", "```")):
        written = _IN_JSON.search(text)
        try:
            return str(json.loads(written[1], strict=False)) if written else ""
        except ValueError:
            return ""
    decided = _DECIDED.search(text)
    return _LABEL.sub("", text[: decided.start()] if decided else text).strip()


def write_step_title(event: Asked, at: float) -> str:
    """Return the title of a step, which began `at` this time (0: unknown)."""
    notes = [f"step {event.step}", "beside it" * event.aside, "the last" * event.closing]
    notes.append(f"the reply was not usable: {clean(event.problem)}" if event.problem else "")
    notes.append("the window is full: oldest observations shortened" if event.shortened else "")
    return ", ".join(filter(None, notes)) + (f" · {format_clock_time(at)}" if at else "")


def format_clock_time(at: float, form: str = "%H:%M:%S") -> str:
    """Return a time of day, of Unix seconds; empty for one that no clock shows."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return ""


def call_text(action: AgentAction) -> str:
    """Return a call as in a program."""
    given, write = action.tool_input, partial(json.dumps, ensure_ascii=False)
    written = (
        ", ".join(f"{key}={write(value)}" for key, value in given.items()) if isinstance(given, dict) else write(given)
    )
    return f"{action.tool}({written})"


def shorten_text(text: str, most: int) -> str:
    """Return at most so many characters of a text (0: all)."""
    return text if not most or len(text) <= most else f"{text[:most]} …"


def format_tokens(usage: Usage) -> str:
    """Return the tokens and what they cost."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of reasoning)" if usage.reasoning_tokens else ""
    cost = f", cost {usage.cost:.4g}" if usage.cost else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}{cost}"


def format_message(message: Message) -> str:
    """Return a message of a prompt, word for word; files by their ids."""
    files = [f"[{one.media_type} {one.id[:12]}]" for one in message.files]
    return "\n".join([*files, _join_parts(message.content, message.calls)])


def reply_text(reply: Reply) -> str:
    """Return a reply, word for word."""
    return _join_parts(reply.text, reply.calls)


def _join_parts(text: str, calls: Sequence[AgentAction]) -> str:
    return "\n".join([*([text] if text or not calls else []), *map(call_text, calls)])
