"""Parses replies in the ReAct tutorial's JSON: actions to run, an answer, or a statement that no tool fits.

The first object that decides something counts; anything after it is made up by the model. Actions take precedence over
an answer, which then becomes the best one so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import AgentAction
from .actions import (
    ACTIONS,
    ANSWERS,
    CUT_OFF as CUT_OFF,
    INPUTS,
    NAMES,
    NO_TOOL,
    UnreadableReply,
    match_tool,
    needs_input,
    normalize_key,
    read_input,
)
from .lenient_json import Truncated, as_text, find_values
from .tagged_calls import TaggedCall, find_calls

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
    text = _unwrap(text)
    cut, called = False, list(find_calls(text))
    for value, begin, end in find_values(text):
        if called and called[0].begin <= begin and (reply := _read_calls(called, text, tools)):
            return reply
        reply = _read_value(value, text[begin:end], tools)
        if reply is not None:
            return reply
        cut = cut or isinstance(value, Truncated)
    if called and (reply := _read_calls(called, text, tools)):
        return reply
    raise UnreadableReply(CUT_OFF if cut else "Invalid Format: no JSON with 'actions' or 'answer'")


def read_truncated_answer(text: str) -> str:
    """Return the available part of an answer whose end is missing."""
    for value, _, _ in find_values(_unwrap(text)):
        values = value.value if isinstance(value, Truncated) else value
        answer = _find_first_value(_fold_keys(values), ANSWERS) if isinstance(values, dict) else None
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
        cut = isinstance(value, Truncated)
        values = value.value if isinstance(value, Truncated) else value
        if not isinstance(values, dict) or begin > at:  # the first object is not JSON
            return ""
        values = _fold_keys(values)
        inner = values.get("decision")
        inner = inner.value if isinstance(inner, Truncated) else inner
        values |= _fold_keys(inner) if isinstance(inner, dict) else {}
        answer = _find_first_value(values, ANSWERS)
        if cut or answer is not None or _has_actions(values):
            return "" if _has_actions(values) else _read_begun_string(answer)
        at = len(text)
    return ""


def _has_actions(values: Mapping[str, Any]) -> bool:
    """Return whether an object contains actions, or the beginning of them."""
    given = _find_first_value(values, ACTIONS)
    given = given.value if isinstance(given, Truncated) else given
    return bool(given) or _is_call(values)


def _read_begun_string(value: Any) -> str:
    """Return a text without an incomplete escape at its end; empty for values of other types."""
    if isinstance(value, str):
        return value
    begun = value.value if isinstance(value, Truncated) else None
    return _ESCAPE_BEGUN.sub("", begun) if isinstance(begun, str) else ""


def _unwrap(text: str) -> str:
    """Return the contents of a reply that is a single JSON string."""
    stripped = text.strip()
    if stripped[:1] == '"':
        with suppress(ValueError, RecursionError):
            inner = json.loads(stripped, strict=False)
            return inner if isinstance(inner, str) else text
    return text


def _read_calls(called: Sequence[TaggedCall], text: str, tools: Sequence[Tool]) -> JsonReply | None:
    """Parse calls between tags, as far as they are valid calls."""
    items = [call.value for call in called if isinstance(call.value, Truncated) or _are_items([call.value])]
    values = {"actions": items}
    return _read_value(values, text[called[0].begin : called[-1].end], tools) if items else None


def _read_value(value: Any, written: str, tools: Sequence[Tool]) -> JsonReply | None:
    """Parse a value; `None` if it has neither actions nor an answer."""
    if isinstance(value, Truncated) and not isinstance(value.value, dict):
        return _read_value({"actions": value}, written, tools) if _are_items(value.value) else None
    values = value.value if isinstance(value, Truncated) else value
    if isinstance(values, list):
        return _read_value({"actions": values}, written, tools) if _are_items(values) else None
    values = _fold_keys(values)
    if isinstance(inner := values.get("decision"), dict):
        values |= _fold_keys(inner)
    items = _list_unparsed_actions(value, values)
    decided = [action for item in items if (action := _read_action(item, written, tools)) is not None]
    if len(decided) > MAX_ACTIONS:
        raise UnreadableReply(f"Invalid Format: {len(decided)} actions at once; give at most {MAX_ACTIONS}")
    ended = next((one for one in decided if one.tool.strip().lower() in _FINISH), None)
    actions = tuple(one for one in decided if one.tool.strip().lower() not in _FINISH)
    answer = _answer_text(_find_first_value(values, ANSWERS) if ended is None else _find_single_value(ended.tool_input))
    if not actions and answer is None:
        return _read_undecided(value, values, written)
    return JsonReply(actions, answer, _read_thought(values), written)


def _read_undecided(value: Any, values: Mapping[str, Any], written: str) -> JsonReply | None:
    """Handle a reply in the right form without actions or answer: in the ReAct tutorial it means that no tool fits."""
    if isinstance(value, Truncated):
        if any(isinstance(inner, Truncated) for inner in values.values()):
            raise UnreadableReply(CUT_OFF)
        return None
    in_form = "scratchpad" in values or isinstance(_find_first_value(values, ACTIONS), list)
    return JsonReply((), NO_TOOL.capitalize(), _read_thought(values), written) if in_form else None


def _fold_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {normalize_key(key): value for key, value in values.items()}


def _find_first_value(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _are_items(values: Any) -> bool:
    return bool(values) and all(
        isinstance(one, dict) and _is_call(_fold_keys(one))
        for one in (v.value if isinstance(v, Truncated) else v for v in values)
    )


def _is_call(values: Mapping[str, Any]) -> bool:
    """Return whether an object is an action. A `name` alone is not enough, since it is a common key."""
    if _find_first_value(values, NAMES) is not None or isinstance(values.get("function"), dict):
        return True
    return ("name" in values or "function" in values) and _find_first_value(values, INPUTS) is not None


def _list_unparsed_actions(value: Any, values: dict[str, Any]) -> list[Any]:
    """Return the unparsed actions in a reply: a list, a single one, or the reply itself."""
    given = _find_first_value(values, ACTIONS)
    if given is None:
        return [Truncated(values) if isinstance(value, Truncated) else values] if _is_call(values) else []
    if isinstance(given, Truncated):
        given = given.value if isinstance(given.value, list) else [given]
    return given if isinstance(given, list) else [given]


def _read_action(item: Any, written: str, tools: Sequence[Tool]) -> AgentAction | None:
    """Parse a complete action; `None` if it says that there is none."""
    if isinstance(item, Truncated):
        raise UnreadableReply(CUT_OFF)
    values = _fold_keys(item) if isinstance(item, dict) else {"action": item}
    if isinstance(inner := values.get("function"), dict):
        values |= _fold_keys(inner)
    name = _find_first_value(values, (*NAMES, "name", "function"))
    if name is None or (isinstance(name, str) and name.strip().lower() in _NOTHING):
        return None
    if not isinstance(name, str):
        raise UnreadableReply("Invalid Format: an action's name must be a text")
    tool, given = match_tool(name, tools), _find_first_value(values, INPUTS)
    if given is None:
        if needs_input(tool):
            raise UnreadableReply(f"Invalid Format: the action {name[:80]!r} has no 'arguments'")
        given = {}
    tool_input = given if isinstance(given, dict) else read_input(as_text(given), tool)
    return AgentAction(tool.name if tool else name, tool_input, written)


def _find_single_value(values: Any) -> Any:
    """Return the answer where answering is written as an action."""
    return next(iter(values.values())) if isinstance(values, dict) and len(values) == 1 else values


def _answer_text(value: Any) -> str | None:
    """Return an answer as text, other values as JSON; `None` if it is missing or truncated."""
    text = "" if value is None or isinstance(value, Truncated) else as_text(value).strip()
    return text if text not in ("", "{}", "[]") else None


def _read_thought(values: Mapping[str, Any]) -> str:
    scratchpad = values.get("scratchpad")
    scratchpad = scratchpad.value if isinstance(scratchpad, Truncated) else scratchpad
    thought = (scratchpad if isinstance(scratchpad, dict) else values).get("thought")
    return thought if isinstance(thought, str) else ""
