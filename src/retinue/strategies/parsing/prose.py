"""Replies without any format: whether one can only be an answer, and whether an answer goes on to act."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...core.protocols import Task
from ...core.tool import Tool
from ...core.values import Reply
from .json_reply import read_reply
from .lenient_json import Truncated
from .markers import ANYWHERE, AT_LINE_START, parts_of
from .react_text import UnreadableReply, bare_name, match_tool
from .tagged_calls import find_calls

_FORMAL = re.compile(r"[{}]|```|</?\w|\b\w+[\[(]")  # JSON, a fence, a tag or a call: an attempt at another format
_LABEL = re.compile(
    r"^[ \t>*_#`-]*+(?:follow|tool|query|search|command|call|function|step|plan|input|argument)[\w -]{0,30}+[*_`]*+:",
    re.IGNORECASE | re.MULTILINE,
)
_INTENT = re.compile(
    r"\b(?:i|we)(?:['\u2019](?:ll|d|m)\b| (?:will|would|shall|should|must|can|could|need|want|have to)\b"
    r"| (?:am|are) going\b)"
    r"|\blet(?:['\u2019]s| us| me)\b(?! know)|^\W*(?:first|next|now)\b",
    re.IGNORECASE,
)


def uses_tool(text: str, tools: Sequence[Tool]) -> bool:
    """Return whether a reply that should be an answer uses, or begins to use, one of `tools`, in any format.

    Anything after an answer with its own marker is made up and does not count.
    """
    if any(isinstance(call.value, Truncated) for call in find_calls(text)):
        return True
    for marker in (AT_LINE_START, ANYWHERE):
        parts = parts_of(text, marker)
        for part, after in zip(parts, [*parts[1:], None], strict=False):
            if part.kind in ("final answer", "observation", "question"):
                break
            if part.kind == "action" and (_is_of(part.text, tools) or (after and after.kind == "input")):
                return True
    return ("{" in text or "<" in text) and _acts_in_json(text, tools)


def _is_of(written: str, tools: Sequence[Tool]) -> bool:
    """Return whether an action names one of the tools, alone or in a call."""
    name = re.split(r"[\[(\n]", written, maxsplit=1)[0]
    return match_tool(bare_name(name), tools) is not None


def _acts_in_json(text: str, tools: Sequence[Tool]) -> bool:
    try:
        actions = read_reply(text, tools).actions
    except UnreadableReply:
        return False
    return any(match_tool(action.tool, tools) for action in actions)


def announces_step(text: str) -> bool:
    """Return whether words before something say that a step is taken with it ("I will look that up:")."""
    return _INTENT.search(text) is not None


def prose_reader(task: Task) -> Callable[[Reply], str]:
    """Return `prose` for the replies to a task; with constrained decoding, no reply counts as prose."""
    return (lambda reply: prose(reply, task.tools)) if not task.constrained else lambda reply: ""


def prose(reply: Reply, tools: Sequence[Tool]) -> str:
    """Return the text of a reply that can only be an answer, or else an empty string.

    Such a reply is complete, has no traces of a format (markers, JSON, fences, tags, calls), names no tool and
    announces nothing ("I need to …", "Let me …").
    """
    text = reply.text.strip()
    if reply.finish == "length" or not any(map(str.isalnum, text)):
        return ""
    if _FORMAL.search(text) or _LABEL.search(text) or ANYWHERE.search(text) or _INTENT.search(text):
        return ""
    return "" if any(re.search(rf"\b{re.escape(tool.name)}\b", text, re.IGNORECASE) for tool in tools) else text
