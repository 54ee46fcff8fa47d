"""Tool calls in formats that models use whatever they are told: between tags, after control tokens, on marked lines.

- `TOOL CALL: {"tool": …, "args": {…}}` (OPEA)
- `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Hermes, Qwen), and with other tags around the same JSON, or a
  list of it: `<tool_calls>`, `<|tool_call|>`, `[TOOL_CALLS]` (Mistral), `<|python_tag|>` (Llama), `<|START_ACTION|>`
- `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}` (Kimi),
  `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}` (DeepSeek), `[TOOL_CALLS]name[ARGS]{…}` (Mistral),
  `to=functions.name <|message|>{…}` (gpt-oss)
- `<function=name>{…}</function>` (Llama), with `<parameter=name>value</parameter>` in it (Qwen's coder),
  `<invoke name="…"><parameter name="…">value</parameter></invoke>`, `<tool_call>name<arg_key>…<arg_value>…` (GLM)
- `<start_function_call>call:name{key:<escape>text<escape>}` (FunctionGemma), `<|tool_call>call:name{…}` (Gemma 4)
- `<tool>name</tool><tool_input>…</tool_input>` (LangChain's XML agent)

A closing tag may be missing, since many engines use it as a stop word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .lenient_json import NotJson, Truncated, parse_json_or_text, parse_value_at

_BEGIN = re.compile(
    r"^[ \t>*_#`-]*+tool[ _]?call[ \t]*+\d*+[*_`]*+[ \t]*+[:\uff1a][*_`]*+\s*+(?=\{)"
    r"|<function=(?P<function>[\w.-]{1,64})>\s*+"
    r"|<tool>\s*+(?P<tool>[\w .-]{1,64})</tool>\s*+<tool_input>"
    r"|(?:<start_function_call>|<\|tool_call>)\s*+call:(?P<gemma>[\w.-]{1,64})(?=\{)"
    r"|(?P<token><\|?(?:(?:longcat_)?tool_?calls?|function_?calls?)(?:_start|_begin)?\|?>|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?"
    r"|<\|(?:start_action|python_tag|plugin)\|>|\[TOOL_CALLS?\]|<(?:｜DSML｜|(?:antml|steptml):)?invoke\s++name=\"|\bto=(?=functions\.))\s*+",
    re.IGNORECASE | re.MULTILINE,
)
_NAME = re.compile(
    r"(?P<name>[A-Za-z_][\w.:-]{0,79})(?P<after>(?:\s|\">|\[CALL_ID\]\w{1,40}|\[ARGS\]|<\|tool_call_argument_begin\|>"
    r"|<｜tool▁sep｜>|```(?:json)?|<\|constrain\|>\w*+|<\|channel\|>\w++|<\|message\|>)*+)"
)
_PARAMETER = re.compile(
    r"\s*+<(?:｜DSML｜|(?:antml|steptml):)?(?:parameter=|parameter\s++name=\"|arg_key>\s*+)(?P<name>[\w.-]{1,64})"
    r"(?:\"(?P<notes>[^>]{0,80})|\s*+</arg_key>\s*+<arg_value)?>",
    re.IGNORECASE,
)
_PARAMETER_END = re.compile(r"</(?:｜DSML｜|(?:antml|steptml):)?(?:parameter|arg_value)>", re.IGNORECASE)
_END = re.compile(
    r"\s*+(?:(?:</[^<>\s]{1,40}>|<[|｜][^<>|｜\s]{0,40}(?:end_|[_▁]end)[^<>|｜\s]{0,40}[|｜]>|<\|(?:end|call)\|>|```)\s*+)*+",
    re.IGNORECASE,
)
_GEMMA_END = re.compile(r"<end_function_call>|<tool_call\|>|(?=<start_function_call>|<\|tool_call>)|\Z")
_GEMMA_TEXT = re.compile(r"(<escape>|<\|\"\|>)(.*?)\1|(?<=[{,])\s*+(\w[\w.-]{0,79})(?=\s*+:)", re.DOTALL)  # and keys
_TOKENS_BEFORE = re.compile(r"^(?:<[|｜][^|｜<>]*+[|｜]>\s*+)+")
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api|default_functions)[.:/]")
_SUFFIX = re.compile(r"(?::\d++|<[|｜].*+)\Z", re.DOTALL)


def clean_called_name(written: str) -> str:
    """Return a tool's name without what some models' formats add: control tokens, `functions.`, and a number."""
    name = _SUFFIX.sub("", _TOKENS_BEFORE.sub("", written))
    return _PREFIX.sub("", name)


class TaggedCall(NamedTuple):
    """A call as written: an object with name and input, or a `Truncated`; with its position, which a list shares."""

    value: Any
    begin: int
    end: int


def find_calls(text: str) -> Iterator[TaggedCall]:
    """Yield the calls in a text, in order. Raises nothing, for any text, and takes linear time."""
    at = 0
    while begun := _BEGIN.search(text, at):
        try:
            value, at = _read_call(text, begun)
        except NotJson as wrong:
            at = max(begun.end(), wrong.at)
            continue
        end = _END.match(text, at)
        at = end.end() if end else at
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and one.keys() == {"name"}:  # a call without arguments
                one["arguments"] = {}
            yield TaggedCall(one, begun.start(), at)


def _read_call(text: str, begun: re.Match[str]) -> tuple[Any, int]:
    at = begun.end()
    if name := begun["tool"]:
        end_at = text.find("</tool_input>", at)
        closed_at = len(text) if end_at < 0 else end_at
        return {"name": name.strip(), "arguments": text[at:closed_at].strip()}, closed_at
    if name := begun["gemma"]:
        end = _GEMMA_END.search(text, at)
        assert end is not None
        body = _GEMMA_TEXT.sub(lambda one: json.dumps(one[2] or one[3] or ""), text[at : end.start()])
        value = parse_value_at(body, 0).value
        return value if isinstance(value, Truncated) else {"name": name, "arguments": value}, end.end()
    name = begun["function"]
    if begun["token"] and text[at : at + 1] not in ("{", "["):
        named = _NAME.match(text, at)
        if named is None or (begun["token"].lower() == "to=" and "<|message|>" not in named["after"]):
            raise NotJson(at)
        name, at = clean_called_name(named["name"]), named.end()
    if not name:
        value, _, at = parse_value_at(text, at)
        return value, at
    if text[at : at + 1] == "{":
        value, _, at = parse_value_at(text, at)
    else:
        begin = at
        value, at = _read_parameters(text, at)
        closed = text.startswith(("</", "<|tool_call_end", "<｜tool▁call▁end"), at) and begun["token"] != "<tool_call>"
        if begun["token"] and at == begin and not closed:
            raise NotJson(at)  # a tag that a text speaks of
    return value if isinstance(value, Truncated) else {"name": name, "arguments": value}, at


def _read_parameters(text: str, at: int) -> tuple[Any, int]:
    """Parse values between tags of their own, as texts unless they are marked as JSON."""
    values: dict[str, Any] = {}
    while begun := _PARAMETER.match(text, at):
        end = _PARAMETER_END.search(text, begun.end())
        if end is None:
            return Truncated(values), len(text)
        value: Any = text[begun.end() : end.start()].strip()
        if 'string="false"' in (begun["notes"] or ""):
            value = parse_value_at(value, 0).value if value[:1] in ("{", "[") else parse_json_or_text(value)
        values[begun["name"]] = value
        at = end.end()
    return values, at
