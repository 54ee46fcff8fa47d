"""Tolerant parser for the ReAct text format.

Its quirks come from 102 recorded transcripts of text-davinci-003 and from frameworks' issue trackers: numbered
markers, `Search[x]`, `Tool:` for `Action:`, bold or lower-case markers, brackets and quotes around names, multi-line
inputs, an observation made up by the model, an action and an answer in one reply, JSON instead of lines. The first
decision counts; anything after an action is made up by the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...core.prompt import Decided
from ...core.tools.tool import Tool
from ...core.values import AgentAction, AgentFinish, Reply
from .actions import (
    CUT_OFF,
    INPUTS,
    NO_ACTION,
    UnreadableReply,
    finish_with,
    match_tool,
    needs_input,
    read_input,
    squeeze,
    strip_tool_name,
    without_quotes,
)
from .lenient_json import FENCED, Truncated, as_text
from .tagged_calls import TaggedCall, find_calls

_KIND = r"(thought|(?:action|tool)[ _]*input|input|action|tool|observation|final[ _]*answer|question)"
AFTER = r"[ \t]*+\d*+[ \t]*+[*_`]*+[ \t]*+[:\uff1a][*_`]*[ \t]*"  # possessive: no backtracking over long runs of spaces
AT_LINE_START = re.compile(rf"^[ \t>*_#`-]*{_KIND}{AFTER}", re.IGNORECASE | re.MULTILINE)
ANYWHERE = re.compile(rf"(?<![\w\"']){_KIND}{AFTER}", re.IGNORECASE)


class Part(NamedTuple):
    """A part of a reply: its kind and text, the position of its marker, its end, and the name in its marker."""

    kind: str
    text: str
    begin: int
    end: int
    name: str = ""


def split_parts(text: str, marker: re.Pattern[str], kind_of: Callable[[str, str], str] | None = None) -> list[Part]:
    """Split a reply into its marked parts. An input may contain `Input:` and `Tool:` lines of its own.

    `kind_of` returns the kind of a part with this word in its marker, after a part of the kind given second; nothing
    for what is no marker there. The marker's other groups are its name.
    """
    if ":" not in text and "\uff1a" not in text:  # each marker ends in one
        return []
    found: list[tuple[str, re.Match[str]]] = []
    for match in marker.finditer(text):
        if kind := (kind_of or _classify_marker)(match.group(1), found[-1][0] if found else ""):
            found.append((kind, match))
    parts = []
    for at, (kind, match) in enumerate(found):
        end = found[at + 1][1].start() if at + 1 < len(found) else len(text)
        name = "".join(filter(None, match.groups()[1:])).strip()
        parts.append(Part(kind, text[match.end() : end].strip(), match.start(), end, name))
    return parts


def _classify_marker(word: str, before: str) -> str:
    word = " ".join(word.lower().replace("_", " ").split())
    if word.endswith("input"):
        return "input" if before == "action" else ""
    if word == "tool":
        return "" if before == "input" else "action"
    return "final answer" if word.startswith("final") else word


INVENTED = re.compile(rf"(?<=\s)(?:thought|observation|final[ _]*answer){AFTER}.*", re.IGNORECASE | re.DOTALL)
_CALL = re.compile(r"(\w[\w .-]*+)\s*+(?:\[(.*)\]|\((.*)\))\s*\.?", re.DOTALL)
_FENCE_BEGUN = re.compile(r"(?<=\S)\s*+```[a-z]*+\s*+\Z", re.IGNORECASE)  # an empty one
_FENCE_OF_NOTHING = re.compile(
    r"(?<=\S)\s*+(?:```[a-z]*+[ \t]*+\n\s*+```|```json```|(?<=\n)```[a-z]++)\s*+\Z", re.IGNORECASE
)
_THOUGHT = re.compile(rf"^[\s>*_#`-]*+thought{AFTER}", re.IGNORECASE)
_FROM_ACTION = re.compile(
    r"^[ \t>*_#`-]*+(?:action|tool)\b|<(?:tool_call|tool|function=[\w.-]++)>", re.I | re.MULTILINE
)
_FINISH = {"finish", "finalanswer"}
_OPEAS = re.compile(r"[ \t>*_#`-]*+FINAL ANSWER\b")
_DECODER = json.JSONDecoder(strict=False)


class Parsed(NamedTuple):
    """A decision, and the number of characters of the reply that belong to it (the rest was made up)."""

    decision: AgentAction | AgentFinish
    length: int


def parse(text: str, tools: Sequence[Tool]) -> Parsed:
    """Parse the decision in a reply. Raises `UnreadableReply`, and nothing else, for any text."""
    if decision := read_json_decision(text, tools):
        return Parsed(decision, len(text))
    parts = split_parts(text, AT_LINE_START)
    if not any(part.kind in ("action", "final answer") for part in parts):
        parts = split_parts(text, ANYWHERE)
    called = next(find_calls(text), None)
    for at, part in enumerate(parts):
        if called and called.begin < part.begin and (parsed := _read_call(called, text, tools)):
            return parsed
        if part.kind in ("observation", "question"):
            called = None  # made up as well
            break
        if part.kind == "final answer":
            return _read_final_answer(part, text)
        if part.kind == "action" and squeeze(part.text) not in NO_ACTION:
            return _read_action(part, parts[at + 1] if at + 1 < len(parts) else None, text, tools)
    if called and (parsed := _read_call(called, text, tools)):
        return parsed
    raise UnreadableReply("Invalid Format: Missing 'Action:' after 'Thought:'")


def _read_call(call: TaggedCall, text: str, tools: Sequence[Tool]) -> Parsed | None:
    """Return the action of a call between tags, if it is valid."""
    if isinstance(call.value, Truncated):
        raise UnreadableReply(CUT_OFF)
    decision = _decide_by_values(call.value, text[: call.end], tools)
    return Parsed(decision, call.end) if isinstance(decision, AgentAction) else None


def _read_final_answer(part: Part, text: str) -> Parsed:
    """Parse an answer, also in OPEA's form, `FINAL ANSWER: {"answer": "…"}`; after a marker in another case, JSON is
    literal."""
    log = text[: part.end]
    if _OPEAS.match(text, part.begin) and isinstance(values := _read_json(part.text), dict):
        found = _decide_by_values(values, log, ())
        if isinstance(found, AgentFinish):
            return Parsed(found, part.end)
    return Parsed(finish(part.text, log), part.end)


def _read_action(part: Part, after: Part | None, text: str, tools: Sequence[Tool]) -> Parsed:
    name, end = part.text, part.end
    written: str | None = None
    if after is not None and after.kind == "input":
        written, end = after.text, after.end
    elif call := _CALL.fullmatch(name):
        name, written = call.group(1), call.group(2) or call.group(3) or ""
    name = strip_tool_name(name)
    if written is not None and squeeze(name) in _FINISH:
        return Parsed(finish(without_quotes(written), text[:end]), end)
    tool = match_tool(name, tools)
    if written is None:
        if decision := read_json_decision(part.text, tools):
            return Parsed(replace(decision, log=text[:end]), end)
        if needs_input(tool):
            raise UnreadableReply("Invalid Format: Missing 'Action Input:' after 'Action:'")
        written = ""
    return Parsed(AgentAction(tool.name if tool else name, read_input(written, tool), text[:end]), end)


def finish(text: str, log: str) -> AgentFinish:
    """Return `text` as the final answer; the ReAct tutorial's phrase means that no tool fits.

    Raises `UnreadableReply` if there is no text.
    """
    if not text:
        raise UnreadableReply("Invalid Format: no answer after 'Final Answer:'")
    return finish_with(without_empty_fence(INVENTED.sub("", text).rstrip() or text), log)


def without_empty_fence(text: str) -> str:
    """Remove an empty fence after an answer."""
    if "```" not in text:
        return text
    return (_FENCE_BEGUN if text.count("```") % 2 else _FENCE_OF_NOTHING).sub("", text)


# ── JSON instead of lines ────────────────────────────────────────────────────────────────────────


def read_json_decision(text: str, tools: Sequence[Tool]) -> AgentAction | AgentFinish | None:
    """Return the decision of a reply that is JSON, or contains it in a fence; `None` if there is none."""
    candidates = [text.strip()] if text.lstrip().startswith(("{", "[")) else []
    if "```" in text and not any(part.kind in ("action", "final answer") for part in split_parts(text, AT_LINE_START)):
        candidates += [inside.strip() for inside in FENCED.findall(text)]
    for candidate in candidates:
        values = _read_json(candidate)
        if isinstance(values, list) and values:
            values = values[0]
        if isinstance(values, dict):
            inner = values.get("decision")
            decision = _decide_by_values(inner if isinstance(inner, dict) else values, text, tools)
            if decision is not None:
                return decision
    return None


def _decide_by_values(values: Mapping[str, Any], text: str, tools: Sequence[Tool]) -> AgentAction | AgentFinish | None:
    answer = values.get("final_answer", values.get("answer"))
    given = next((values[key] for key in INPUTS if key in values), None)
    name = values.get("action", values.get("tool", values.get("name") if given is not None else None))
    if isinstance(name, str) and squeeze(name) in _FINISH:
        answer, name = given, None
    tool = match_tool(name, tools) if isinstance(name, str) else None
    if isinstance(name, str) and name and (given is not None or not needs_input(tool)):
        tool_input = read_input(as_text({} if given is None else given), tool)
        return AgentAction(tool.name if tool else name, tool_input, text)
    if isinstance(answer, str | int | float) and str(answer).strip():
        return finish(str(answer).strip(), text)
    return None


def _read_json(text: str) -> Any:
    """Return the value that `text` begins with, since the first decision counts."""
    try:
        return _DECODER.raw_decode(text)[0] if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def read_thought(log: str) -> str:
    """Return the thought before an action, without its marker."""
    return _THOUGHT.sub("", _FROM_ACTION.split(log, maxsplit=1)[0]).strip()


# ── writing: the inverse ─────────────────────────────────────────────────────────────────────────


def format_decision(decided: Decided) -> Reply:
    """Format a decision as a model would write it after "Thought:". `parse` reads it back (the first of several
    actions).
    """
    if isinstance(decided, AgentFinish):
        return Reply(f" I now know the final answer\nFinal Answer: {decided.output}")
    action = decided[0]
    given = action.tool_input if isinstance(action.tool_input, str) else json.dumps(action.tool_input)
    return Reply(f" I should use {action.tool}\nAction: {action.tool}\nAction Input: {given}\n")


def format_answer(decided: Decided) -> Reply:
    """Format a decision as a reply to "Final Answer:", where an action is not possible."""
    return Reply(f" {decided.output}" if isinstance(decided, AgentFinish) else "")
