"""Parses replies in the ReAct tutorial's JSON: actions to run, an answer, or a statement that no tool fits.

The first object that decides something counts; anything after it is made up by the model. Actions take precedence over
an answer, which then becomes the best one so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import AgentAction
from .actions import (
    ACTIONS,
    ANSWERS,
    CUT_OFF,
    INPUTS,
    NAMES,
    NO_TOOL,
    UnreadableReply,
    match_tool,
    needs_input,
    normalize_key,
    read_input,
)
from .lenient_json import Truncated, as_text, find_values, open_value
from .tagged_calls import find_calls

MAX_ACTIONS = 8  # per reply; a model that writes more is rambling

_NOTHING = {"", "none", "n/a", "null", "no action"}
_FINISH = {"finish", "final answer", "final_answer", "answer"}
_ESCAPE_BEGUN = re.compile(r"\ufffd?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")  # U+FFFD: half a surrogate pair


@dataclass(frozen=True, slots=True)
class JsonReply:
    """A parsed reply; `text` is its JSON as the model wrote it. `answer` is `None` if there is none."""

    actions: tuple[AgentAction, ...]
    answer: str | None
    thought: str
    text: str


def read_reply(text: str, tools: Sequence[Tool]) -> JsonReply:
    """Parse a reply. Raises `UnreadableReply`, and nothing else, for any text."""
    text, cut = _unwrap(text), False
    called = list(find_calls(text))
    # Calls between tags are read as one object with actions, as far as they are valid calls.
    items = [call.value for call in called if isinstance(call.value, Truncated) or _are_calls([call.value])]
    tagged = [({"actions": items}, text[called[0].begin : called[-1].end])] if items else []
    for value, begin, end in find_values(text):
        if tagged and called[0].begin <= begin and (reply := _read_value(*tagged.pop(), tools)):
            return reply
        if reply := _read_value(value, text[begin:end], tools):
            return reply
        cut = cut or isinstance(value, Truncated)
    if tagged and (reply := _read_value(*tagged[0], tools)):
        return reply
    raise UnreadableReply(CUT_OFF if cut else "Invalid Format: no JSON with 'actions' or 'answer'")


def read_truncated_answer(text: str) -> str:
    """Return the available part of an answer whose end is missing."""
    for value, _, _ in find_values(_unwrap(text)):
        answer = _find_first(_fold_keys(open_value(value)), ANSWERS)
        if isinstance(answer, Truncated) and isinstance(answer.value, str):
            return answer.value.strip()
    return ""


def read_partial_answer(text: str) -> str:
    """Return the text so far of the answer in a reply's first object, unless actions come before it."""
    if not re.match(r"[^\[\"]*\{", text):
        return ""
    at = text.index("{")
    if (called := next(find_calls(text), None)) and called.begin < at:
        return ""
    for value, begin, _ in find_values(text):
        if not isinstance(open_value(value), dict) or begin > at:  # the first object is not JSON
            return ""
        values = _fold_keys(open_value(value))
        values |= _fold_keys(open_value(values.get("decision")))
        if open_value(_find_first(values, ACTIONS)) or _is_call(values):
            return ""
        answer = _find_first(values, ANSWERS)
        if answer is not None or isinstance(value, Truncated):
            begun = open_value(answer) if isinstance(open_value(answer), str) else ""
            return _ESCAPE_BEGUN.sub("", begun) if isinstance(answer, Truncated) else begun
        at = len(text)
    return ""


def _unwrap(text: str) -> str:
    """Return the contents of a reply that is a single JSON string."""
    if text.lstrip()[:1] == '"':
        with suppress(ValueError, RecursionError):
            inner = json.loads(text.strip(), strict=False)
            return inner if isinstance(inner, str) else text
    return text


def _read_value(value: Any, written: str, tools: Sequence[Tool]) -> JsonReply | None:
    """Parse a value; `None` if it has neither actions nor an answer."""
    opened, cut = open_value(value), isinstance(value, Truncated)
    if not isinstance(opened, dict):
        return _read_value({"actions": value}, written, tools) if _are_calls(opened) else None
    values = _fold_keys(opened)
    values |= _fold_keys(values.get("decision"))
    decided = [action for item in _list_items(values, cut=cut) if (action := _read_action(item, written, tools))]
    if len(decided) > MAX_ACTIONS:
        raise UnreadableReply(f"Invalid Format: {len(decided)} actions at once; give at most {MAX_ACTIONS}")
    actions = tuple(one for one in decided if one.tool.strip().lower() not in _FINISH)
    ended = [one.tool_input for one in decided if one not in actions]
    said = ended[0] if ended else _find_first(values, ANSWERS)
    if ended and isinstance(said, dict) and len(said) == 1:  # the answer where answering is written as an action
        said = next(iter(said.values()))
    answer = "" if said is None or isinstance(said, Truncated) else as_text(said).strip()
    scratchpad = open_value(values.get("scratchpad"))
    thought = (scratchpad if isinstance(scratchpad, dict) else values).get("thought")
    said = answer if answer not in ("", "{}", "[]") else None
    found = JsonReply(
        actions,
        answer if answer not in ("", "{}", "[]") else None,
        thought if isinstance(thought, str) else "",
        written,
    )
    return found if actions or found.answer else _read_undecided(found, values, cut=cut)


def _read_undecided(found: JsonReply, values: Mapping[str, Any], *, cut: bool) -> JsonReply | None:
    """Handle a reply in the right form without actions or answer: in the ReAct tutorial it means that no tool fits."""
    if cut:
        if any(isinstance(inner, Truncated) for inner in values.values()):
            raise UnreadableReply(CUT_OFF)
        return None
    in_form = "scratchpad" in values or isinstance(_find_first(values, ACTIONS), list)
    return replace(found, answer=NO_TOOL.capitalize()) if in_form else None


def _fold_keys(values: Any) -> dict[str, Any]:
    return {normalize_key(key): value for key, value in values.items()} if isinstance(values, dict) else {}


def _find_first(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _are_calls(values: Any) -> bool:
    return bool(values) and all(isinstance(one, dict) and _is_call(_fold_keys(one)) for one in map(open_value, values))


def _is_call(values: Mapping[str, Any]) -> bool:
    """Return whether an object is an action. A `name` alone is not enough, since it is a common key."""
    if _find_first(values, NAMES) is not None or isinstance(values.get("function"), dict):
        return True
    return ("name" in values or "function" in values) and _find_first(values, INPUTS) is not None


def _list_items(values: dict[str, Any], *, cut: bool) -> list[Any]:
    """Return the unparsed actions in a reply: a list, a single one, or the reply itself, which may be `cut` off."""
    given = _find_first(values, ACTIONS)
    if given is None:
        return [Truncated(values) if cut else values] if _is_call(values) else []
    listed = open_value(given)
    return listed if isinstance(listed, list) else [given]


def _read_action(item: Any, written: str, tools: Sequence[Tool]) -> AgentAction | None:
    """Parse a complete action; `None` if it says that there is none."""
    if isinstance(item, Truncated):
        raise UnreadableReply(CUT_OFF)
    values = _fold_keys(item) if isinstance(item, dict) else {"action": item}
    values |= _fold_keys(values.get("function"))
    name = _find_first(values, (*NAMES, "name", "function"))
    if name is None or (isinstance(name, str) and name.strip().lower() in _NOTHING):
        return None
    if not isinstance(name, str):
        raise UnreadableReply("Invalid Format: an action's name must be a text")
    tool, given = match_tool(name, tools), _find_first(values, INPUTS)
    if given is None:
        if needs_input(tool):
            raise UnreadableReply(f"Invalid Format: the action {name[:80]!r} has no 'arguments'")
        given = {}
    tool_input = given if isinstance(given, dict) else read_input(as_text(given), tool)
    return AgentAction(tool.name if tool else name, tool_input, written)
