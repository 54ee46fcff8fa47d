"""Parses and streams the reply to "Final Answer:", which should contain nothing but the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from ...core.tool import Tool
from ...core.values import CUT_SHORT, AgentFinish, Reply, StopReason
from .answer_stream import finished_answer
from .json_reply import partial_answer
from .markers import AFTER, AT_LINE_START, parts_of
from .prose import uses_tool
from .react_text import UnreadableReply, finish, json_decision, names_no_tool, parse

_REPEATED = re.compile(r"^\s*+(?:thought[^\n]*\n)?\s*+final[ _]*answer[ \t]*:", re.IGNORECASE)
_STEP_FIRST = re.compile(rf"[\s>*_#`-]*+(?:thought|action){AFTER}", re.IGNORECASE)


def answer_of(text: str, tools: Sequence[Tool] = ()) -> AgentFinish:
    """Parse the answer in a reply; without output if there is none. From truncated JSON, the part that arrived is
    taken.

    Words before an action, even an incomplete one, are a thought and not an answer.
    """
    if text.lstrip().startswith(("{", "[", "`")):
        decision = json_decision(text, ())
        if decision is None and (begun := partial_answer(text).strip()):
            decision = finish(begun, text)
        if decision is not None:
            return decision if isinstance(decision, AgentFinish) else AgentFinish({}, text)
    said = _REPEATED.sub("", text)
    begins_step = said == text and _STEP_FIRST.match(text)
    if said != text or begins_step or not _goes_on(text, tools):
        with suppress(UnreadableReply):
            decided = parse(text if begins_step else f"Final Answer: {said}", tools).decision
            if isinstance(decided, AgentFinish):
                return decided
    return AgentFinish({}, text)


def _goes_on(text: str, tools: Sequence[Tool]) -> bool:
    """Return whether a reply acts before it gives an answer or invents an observation."""
    for part in parts_of(text, AT_LINE_START):
        if part.kind == "action" and not names_no_tool(part.text):
            return True
        if part.kind in ("final answer", "observation", "question") or (part.kind == "thought" and part.begin):
            return False
    return uses_tool(text, tools)


def visible_answer(text: str) -> str:
    """Extract the visible part of the answer from a reply that is still arriving; see `answer_stream`."""
    begins = text.lstrip()[:7].lower()
    if begins.startswith(("{", "[", "`")):
        return finished_answer(partial_answer(text)) if begins[0] == "{" else ""
    if repeated := _REPEATED.match(text):
        return finished_answer(text, repeated.end())
    return "" if begins == "thought" else finished_answer(text)


_PROBLEMS = {
    "length": "the model's reply was cut at its token limit",
    "content_filter": "the engine withheld the model's reply (content filter)",
}


def mark_truncated(read: AgentFinish, reply: Reply) -> AgentFinish:
    """Mark the result `read` from `reply` with the reason if the reply was truncated."""
    if reply.finish == "stop" or read.reason not in (StopReason.ANSWER, StopReason.UNREADABLE_REPLY):
        return read
    values = {"output": read.output, **read.return_values, "problem": _PROBLEMS[reply.finish]}
    return AgentFinish(values, read.log, CUT_SHORT[reply.finish])
