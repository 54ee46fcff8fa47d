"""Tool calls in formats that models use whatever they are told: between tags, or on marked lines.

`TOOL CALL: {"tool": …, "args": {…}}` (OPEA), `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Hermes, Qwen),
`<function=name>{…}</function>` (Llama), with `<parameter=name>value</parameter>` in it (Qwen's coder), and
`<tool>name</tool><tool_input>…</tool_input>` (LangChain's XML agent). A closing tag may be missing, since many engines
use it as a stop word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .lenient_json import NotJson, Truncated, value_at

_BEGIN = re.compile(
    r"^[ \t>*_#`-]*+tool[ _]?call[ \t]*+\d*+[*_`]*+[ \t]*+[:\uff1a][*_`]*+\s*+(?=\{)"
    r"|<tool_call>\s*+(?=\{)"
    r"|<function=(?P<function>[\w.-]{1,64})>\s*+"
    r"|<tool>\s*+(?P<tool>[\w .-]{1,64})</tool>\s*+<tool_input>",
    re.IGNORECASE | re.MULTILINE,
)
_PARAMETER = re.compile(r"\s*+<parameter=([\w.-]{1,64})>", re.IGNORECASE)
_END = re.compile(r"\s*+(?:</(?:function|tool_call|tool_input)>\s*+)*+", re.IGNORECASE)


class TaggedCall(NamedTuple):
    """A call as written: an object with name and input, or a `Truncated`; with its position."""

    value: Any
    begin: int
    end: int


def find_calls(text: str) -> Iterator[TaggedCall]:
    """Yield the calls in a text, in order. Raises nothing, for any text, and takes linear time."""
    at = 0
    while begun := _BEGIN.search(text, at):
        try:
            value, at = _given(text, begun)
        except NotJson as wrong:
            at = max(begun.end(), wrong.at)
            continue
        at = _after(text, at)
        yield TaggedCall(value, begun.start(), at)


def _given(text: str, begun: re.Match[str]) -> tuple[Any, int]:
    at = begun.end()
    if name := begun["tool"]:
        end = _until(text, "</tool_input>", at)
        return {"name": name.strip(), "arguments": text[at:end].strip()}, end
    if not (name := begun["function"]):
        value, _, at = value_at(text, at)
        return value, at
    if text[at : at + 1] == "{":
        value, _, at = value_at(text, at)
    else:
        value, at = _parameters(text, at)
    return value if isinstance(value, Truncated) else {"name": name, "arguments": value}, at


def _parameters(text: str, at: int) -> tuple[Any, int]:
    """Parse values between tags of their own, as texts."""
    values: dict[str, Any] = {}
    while begun := _PARAMETER.match(text, at):
        end = text.find("</parameter>", begun.end())
        if end < 0:
            return Truncated(values), len(text)
        values[begun[1]] = text[begun.end() : end].strip()
        at = end + len("</parameter>")
    return values, at


def _until(text: str, tag: str, at: int) -> int:
    end = text.find(tag, at)
    return len(text) if end < 0 else end


def _after(text: str, at: int) -> int:
    end = _END.match(text, at)
    assert end is not None
    return end.end()
