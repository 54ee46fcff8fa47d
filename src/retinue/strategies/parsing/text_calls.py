"""Tool calls that a model writes as text where native ones were expected, and the answer beside them.

Calls between tags or after control tokens are calls wherever they stand, except in code. JSON is a call if it is the
whole reply, or follows words that announce a step; it names a tool that there is, and has nothing but a call in it. So
an answer that happens to be JSON stays an answer. The same holds for a reply that is nothing but calls in the notation
of Python: `[name(key=value)]` (Llama 4, LFM2, Olmo), or in a block of `tool_code` (Gemma).
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import AgentAction
from .actions import CUT_OFF, KEYS, UnreadableReply, match_tool, normalize_key
from .final_answer import INTENT, read_plain_answer
from .json_reply import read_reply
from .lenient_json import Truncated, find_values, parse_json_or_text
from .tagged_calls import TaggedCall, clean_called_name, find_calls

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_LANGUAGE = re.compile(r"[a-z_]*+", re.IGNORECASE)
_OF_CALLS = KEYS | {"id", "index", "name", "type"}
_MAX_WORDS = 500  # characters of words that announce a step
_TOKENS = ("<|", "<｜", "<tool", "<TOOL", "<function", "<invoke", "<antml", "[TOOL")  # with which calls begin
_TOKEN_BEGUN = re.compile(r"(?:<\w{0,9}|\[T?O?O?L?)\Z")
_LONGEST_TOKEN = 10
_MAYBE_JSON = re.compile(
    r"^[ \t]*+(?:[{\[]|```(?:json|tool_\w++)?(?:\s|\Z)|(?:`{1,2}|```\w{0,9})\Z)", re.IGNORECASE | re.MULTILINE
)

_MAYBE_PYTHON = re.compile(r"\s*+(?:[A-Za-z_][\w.]*+\(|[A-Za-z]++_\w*+\Z)")
_PYTHON = re.compile(r"(?:print\()?\[?\s*+[A-Za-z_][\w.]*+\(")
_TAGS_AROUND = re.compile(r"\A(?:<[^<>\s]{1,40}>\s*+)++|(?:<[^<>\s]{1,40}>\s*+)++\Z")
_MAX_PYTHON = 20_000  # characters


def read_calls_in_text(text: str, tools: Sequence[Tool]) -> tuple[tuple[AgentAction, ...], str]:
    """Return the calls in a reply, and the text before them. Raises `UnreadableReply` for one that is cut off."""
    if tagged := _find_tagged(text):
        if any(isinstance(call.value, Truncated) for call in tagged):
            raise UnreadableReply(CUT_OFF)
        actions = _read_actions([call.value for call in tagged], tools)
        return actions, text[: tagged[0].begin].strip() if actions else text
    if calls := _read_python(text, tools):
        return _read_actions(calls, tools), ""
    before, written = _split_json(text)
    if written and (not before or _announces_call(before)):
        actions = _read_actions([found.value for found in find_values(written)], tools)
        if actions and all(match_tool(action.tool, tools) for action in actions):
            return actions, before
    return (), text


def answer_beside_calls(text: str) -> str:
    """Extract from a text that is itself the answer, unless it turns out to be a call; that is held back."""
    if _MAYBE_PYTHON.match(text):
        return ""
    ends = [at for token in _TOKENS if (at := text.find(token)) >= 0]
    if begun := _TOKEN_BEGUN.search(text, max(0, len(text) - _LONGEST_TOKEN)):
        ends.append(begun.start())
    for maybe in _MAYBE_JSON.finditer(text[: 2 * _MAX_WORDS]):
        before = text[: maybe.start()]
        if not before.strip() or _announces_call(before):
            ends.append(maybe.start())
            break
    return read_plain_answer(text[: min(ends, default=len(text))])


def _announces_call(words: str) -> bool:
    return len(words) <= _MAX_WORDS and INTENT.search(words) is not None


def _find_tagged(text: str) -> Sequence[TaggedCall]:
    """Return the calls between tags that are not shown as code, unless the whole reply is code."""
    before, inner = _split_fence(text.strip())
    if inner and not before:
        return list(find_calls(inner))
    calls = list(find_calls(text))
    code = [found.span() for found in _CODE.finditer(text)] if calls else []
    begins, ends = [begin for begin, _ in code], [0, *(end for _, end in code)]
    return [call for call in calls if call.begin >= ends[bisect_right(begins, call.begin)]]


def _split_fence(text: str) -> tuple[str, str]:
    """Return the words before a block of code that ends a text, and what is in it; empty if there is none."""
    begin = text.rfind("```", 0, -3) if text.endswith("```") else -1
    before = text[: max(begin, 0)]
    if begin < 0 or before.rstrip(" \t")[-1:] not in ("", "\n"):
        return text, ""
    return before.strip(), _LANGUAGE.sub("", text[begin + 3 : -3], count=1).strip()


def _read_python(text: str, tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the calls of a reply that is nothing but calls of tools, with constants, in the notation of Python."""
    begun = text.strip()
    inner = _split_fence(begun)[1] if begun.startswith("```tool_c") else _TAGS_AROUND.sub("", begun)
    if len(inner) > _MAX_PYTHON or not _PYTHON.match(inner):
        return []
    try:
        lines: list[Any] = [getattr(line, "value", line) for line in ast.parse(inner).body]
        listed = [one for line in lines for one in (line.elts if isinstance(line, ast.List | ast.Tuple) else [line])]
        return [_read_python_call(one, tools) for one in listed]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []


def _read_python_call(call: ast.expr, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return a call as an object. Raises `ValueError` for what is none of a tool."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print" and call.args:
        call = call.args[0]
    name = clean_called_name(ast.unparse(call.func)) if isinstance(call, ast.Call) else ""
    tool = next((one for one in tools if one.name == name), None)
    if tool is None or not isinstance(call, ast.Call):
        raise ValueError
    names = tool.signature.parameters.get("properties", {})
    given = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
    given |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    json.dumps(given)  # raises for constants that JSON lacks
    return {"name": name, "arguments": given}


def _split_json(text: str) -> tuple[str, str]:
    """Return the words before the JSON that ends a reply, and that JSON; empty if there is none with calls only."""
    stripped = text.strip()
    before, inner = _split_fence(stripped)
    if not inner:
        begin = min((at for at in (stripped.find("{"), stripped.find("[")) if at >= 0), default=len(stripped))
        before, inner = stripped[:begin].strip(), stripped[begin:]
    at = 0
    for found in find_values(inner):  # one value or one after the other, which have only keys that calls have
        if isinstance(found.value, Truncated) or inner[at : found.begin].strip(" \t\r\n,;"):
            return text, ""
        for value in found.value if isinstance(found.value, list) else [found.value]:
            if not (isinstance(value, Mapping) and value and {normalize_key(str(key)) for key in value} <= _OF_CALLS):
                return text, ""
        at = found.end
    return (before, inner) if at and not inner[at:].strip() else (text, "")


def _read_actions(values: Sequence[Any], tools: Sequence[Tool]) -> tuple[AgentAction, ...]:
    """Parse objects, or lists of them; between tags everything is a text, and gets the type that its schema wants."""
    objects = [one for value in values for one in (value if isinstance(value, list) else [value])]
    try:  # one by one: there may be as many as there may be native ones
        actions = [action for one in objects for action in read_reply(json.dumps(one), tools).actions]
    except UnreadableReply:
        return ()
    converted = []
    for action in actions:
        tool, given = match_tool(action.tool, tools), action.tool_input
        if tool and isinstance(given, dict):
            schemas = tool.signature.parameters.get("properties", {})
            given = {name: _convert_value(value, schemas.get(name)) for name, value in given.items()}
        converted.append(replace(action, tool_input=given))
    return tuple(converted)


def _convert_value(value: Any, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(value, str) or kind not in ("integer", "number", "boolean", "object", "array"):
        return value
    return parse_json_or_text(value)
