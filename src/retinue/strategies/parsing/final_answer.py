"""Answers in replies: those that follow "Final Answer:", those without any format, and those that are still arriving.

What is shown of a reply that is still arriving only grows, and the rest retracts none of it. Undecidable text (a line
that may become a marker, the words that say that no tool fits) is held back, if necessary to the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

from ...core.tools.tool import Tool
from ...core.values import CUT_SHORT, AgentFinish, Reply, StopReason
from .actions import NO_ACTION, NO_TOOL, UnreadableReply, match_tool, squeeze, strip_tool_name
from .json_reply import read_partial_answer, read_reply
from .lenient_json import Truncated
from .react_text import AFTER, ANYWHERE, AT_LINE_START, INVENTED, finish, parse, read_json_decision, split_parts
from .tagged_calls import find_calls

# ── answers without a format ──────────────────────────────────────────────────────────────────────

_ENDS = ("final answer", "observation", "question")  # parts after which anything is made up
_FORMAL = re.compile(r"[{}]|```|</?\w|\b\w+[\[(]")  # JSON, a fence, a tag or a call: an attempt at another format
_LABEL = re.compile(
    r"^[ \t>*_#`-]*+(?:follow|tool|query|search|command|call|function|step|plan|input|argument)[\w -]{0,30}+[*_`]*+:",
    re.IGNORECASE | re.MULTILINE,
)
INTENT = re.compile(
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
        parts = list(takewhile(lambda part: part.kind not in _ENDS, split_parts(text, marker)))
        inputs = [part.begin for part in parts if part.kind == "input"]
        for action in (part for part in parts if part.kind == "action"):
            name = re.split(r"[\[(\n]", action.text, maxsplit=1)[0]
            acts = not name or squeeze(name) not in NO_ACTION
            if acts and (action.end in inputs or match_tool(strip_tool_name(name), tools)):
                return True
    if "{" not in text and "<" not in text:
        return False
    try:
        return any(match_tool(action.tool, tools) for action in read_reply(text, tools).actions)
    except UnreadableReply:
        return False


def read_prose(reply: Reply, tools: Sequence[Tool]) -> str:
    """Return the text of a reply that can only be an answer, or else an empty string.

    Such a reply is complete, has no traces of a format (markers, JSON, fences, tags, calls), names no tool and
    announces nothing ("I need to …", "Let me …").
    """
    text = reply.text.strip()
    if reply.finish == "length" or not any(map(str.isalnum, text)):
        return ""
    if any(trace.search(text) for trace in (_FORMAL, _LABEL, ANYWHERE, INTENT)):
        return ""
    return "" if any(re.search(rf"\b{re.escape(tool.name)}\b", text, re.IGNORECASE) for tool in tools) else text


# ── replies to "Final Answer:" ────────────────────────────────────────────────────────────────────

_REPEATED = re.compile(r"^\s*+(?:thought[^\n]*\n)?\s*+final[ _]*answer[ \t]*:", re.IGNORECASE)
_STEP_FIRST = re.compile(rf"[\s>*_#`-]*+(?:thought|action){AFTER}", re.IGNORECASE)


def answer_of(text: str, tools: Sequence[Tool] = ()) -> AgentFinish:
    """Parse the answer in a reply; without output if there is none. From truncated JSON, the part that arrived is
    taken.

    Words before an action, even an incomplete one, are a thought and not an answer.
    """
    if text.lstrip().startswith(("{", "[", "`")):
        decision = read_json_decision(text, ())
        if decision is None and (begun := read_partial_answer(text).strip()):
            decision = finish(begun, text)
        if decision is not None:
            return decision if isinstance(decision, AgentFinish) else AgentFinish({}, text)
    said = _REPEATED.sub("", text)
    begins_step = said == text and _STEP_FIRST.match(text)
    if said != text or begins_step or not _acts_first(text, tools):
        with suppress(UnreadableReply):
            decided = parse(text if begins_step else f"Final Answer: {said}", tools).decision
            if isinstance(decided, AgentFinish):
                return decided
    return AgentFinish({}, text)


def _acts_first(text: str, tools: Sequence[Tool]) -> bool:
    """Return whether a reply acts before it gives an answer or invents an observation."""
    for part in split_parts(text, AT_LINE_START):
        if part.kind == "action" and (not part.text or squeeze(part.text) not in NO_ACTION):
            return True
        if part.kind in _ENDS or (part.kind == "thought" and part.begin):
            return False
    return uses_tool(text, tools)


def read_visible_answer(text: str) -> str:
    """Extract the visible part of the answer from a reply that is still arriving."""
    begins = text.lstrip()[:7].lower()
    if begins.startswith(("{", "[", "`")):
        return read_finished_answer(read_partial_answer(text)) if begins[0] == "{" else ""
    if repeated := _REPEATED.match(text):
        return read_finished_answer(text, repeated.end())
    return "" if begins == "thought" else read_finished_answer(text)


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


# ── answers that are still arriving ───────────────────────────────────────────────────────────────

_DECORATION = r"[ \t>*_#`-]*+"
_BEFORE_COLON = r"[ \t]*+\d*+[ \t]*+[*_`]*+[ \t]*+"
_FINAL = re.compile(rf"^{_DECORATION}final[ _]*answer{AFTER}", re.IGNORECASE | re.MULTILINE)
_FENCE_BEGUN = re.compile(r"(?<!`)`++[a-z]*+\s*+\Z", re.IGNORECASE)
_NO_WORDS = re.compile(r"[\W_]+")


def build_prefixes_pattern(*words: str, between: str = "[ _]*+") -> str:
    """Return a pattern for any prefix of one of `words`, with `between` allowed between them."""
    patterns = []
    for word in words:
        pattern = ""
        for letter in reversed(word[1:]):
            pattern = f"(?:{between if letter == ' ' else letter}{pattern})?"
        patterns.append(word[0] + pattern)
    return f"(?:{'|'.join(patterns)})"


_MARKERS = ("thought", "action input", "tool input", "input", "observation", "final answer", "question")
_LINE_BEGUN = re.compile(
    _DECORATION + rf"(?:{build_prefixes_pattern(*_MARKERS)}{_BEFORE_COLON})?",
    re.IGNORECASE,
)
_WORD_BEGUN = re.compile(
    rf"(?<=\s){build_prefixes_pattern('thought', 'observation', 'final answer')}{_BEFORE_COLON}\Z", re.IGNORECASE
)


def read_plain_answer(text: str) -> str:
    """Extract from a text that is itself the answer."""
    text = text.strip()
    return "" if may_begin_with(text, NO_TOOL) else text


def may_begin_with(text: str, phrase: str) -> bool:
    """Return whether `text` begins with `phrase`, or may do so once complete, whatever the punctuation."""
    said = _NO_WORDS.sub(" ", text[: 2 * len(phrase)]).strip().lower()
    return phrase.startswith(said[: len(phrase)])


def read_json_answer(text: str) -> str:
    """Extract the answer's text from a JSON reply."""
    return read_plain_answer(read_partial_answer(text)) if "nswer" in text else ""


def read_marked_answer(text: str, tools: Sequence[Tool]) -> str:
    """Extract from a ReAct reply, including its JSON form, what follows "Final Answer:" at the beginning of a line."""
    if "nswer" not in text.lower():  # the case while only a thought and an action arrive
        return ""
    if text.lstrip().startswith("{"):
        return read_finished_answer(read_partial_answer(text))
    marker = _FINAL.search(text)
    if marker is None:
        return ""
    try:
        decision = parse(f"{text[: marker.end()]}x", tools).decision
    except UnreadableReply:
        return ""
    in_it = "FINAL" in marker.group() and text.startswith("{", marker.end())  # OPEA writes the answer as JSON
    if in_it or not isinstance(decision, AgentFinish):
        return ""
    return read_finished_answer(text, marker.end())


def read_finished_answer(text: str, begin: int = 0) -> str:
    """Extract the answer that starts at `begin`. Like `react_text.finish`, stop before anything made up, and before
    what may become a marker."""
    ends = [match.start() for marker in (AT_LINE_START, INVENTED) if (match := marker.search(text, begin))]
    if not ends:
        line = text.rfind("\n", begin) + 1
        if (line > begin or not begin) and _LINE_BEGUN.fullmatch(text, line):
            ends = [line]
        elif word := _WORD_BEGUN.search(text, max(line, begin)):
            ends = [word.start()]
    return cut_at_fence(text[begin : min(ends, default=len(text))])


def cut_at_fence(text: str) -> str:
    """Return the answer up to a possible start of a fence."""
    return read_plain_answer(_FENCE_BEGUN.sub("", text))
