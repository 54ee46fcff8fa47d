"""Tolerant JSON parser for text written by models; truncated values are never completed.

Accepts beyond JSON: surrounding prose and fences, single quotes, trailing and missing commas, line breaks in strings,
Python's `True` and `None`, `NaN`, and a missing end. Values with a missing end are marked `Truncated`, so that a
fragment is never mistaken for the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._internal.foreign_text import make_well_formed

MAX_DEPTH = 40
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FOLLOWED = 3  # multiples of the text's length

FENCED = re.compile(r"```[a-z]*+\s*+(.*?)```", re.IGNORECASE | re.DOTALL)
_BRACKET = re.compile(r"[{\[]")
_SPACE = re.compile(r"[ \t\r\n]*+")
_COMMAS = re.compile(r"[ \t\r\n]*+(?:,[ \t\r\n]*+)*+")
_STRINGS = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*+)({quote})?", re.DOTALL) for quote in "\"'"}
_WORD = re.compile(r"[-+.\w]++")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][-+]?\d++)?+")
_ODD_NUMBER = re.compile(r"[-+]*+(?:nan|inf|infinity)|[-+]?[\d.]++(?:e[-+]?\d++)?+", re.IGNORECASE)  # but a common one


class NotJson(Exception):
    """No value starts here; parsing fails at `at`."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no value at {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Truncated:
    """The available part of a value whose end is missing."""

    value: Any


def open_value(value: Any) -> Any:
    """Return a value, or the available part of a `Truncated` one."""
    return value.value if isinstance(value, Truncated) else value


class FoundValue(NamedTuple):
    """A value in a text, and its position."""

    value: Any
    begin: int
    end: int


def find_values(text: str) -> Iterator[FoundValue]:
    """Yield the objects and arrays in `text`, in order. Raises nothing, for any text.

    Each candidate is parsed until it fails; the total work is bounded, so the time is linear.
    """
    at, followed = 0, 0
    while followed <= _FOLLOWED * len(text) and (bracket := _BRACKET.search(text, at)):
        begin = bracket.start()
        try:
            found = parse_value_at(text, begin)
        except NotJson as wrong:
            followed += wrong.at - begin
            at = begin + 1
            continue
        yield found
        at = begin + 1 if isinstance(found.value, Truncated) else found.end
        followed += found.end - begin


def parse_value_at(text: str, at: int) -> FoundValue:
    """Parse the value that begins at `at`. Raises `NotJson` if there is none."""
    value, end = _read_value(text, at, 0)
    return FoundValue(value, at, end)


def find_json_values(text: str) -> Iterator[Any]:
    """Yield the JSON that there is in a text: all of it, what is in fences, or between the first and last bracket."""
    begin = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=len(text))
    end = max(text.rfind("}"), text.rfind("]")) + 1
    for candidate in (text, *FENCED.findall(text), text[begin:end]):
        with suppress(ValueError, RecursionError):
            value = json.loads(candidate, strict=False)
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            yield value


def parse_json_or_text(text: str) -> Any:
    """Return the value of a text that is JSON, or else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_text(value: Any) -> str:
    """Return a value as text: strings unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Parse the value that begins at `at`; return it with its end."""
    if depth > MAX_DEPTH:
        raise NotJson(at)
    if text[at : at + 1] in ("{", "["):
        return _read_container(text, at, depth)
    if text[at : at + 1] in ('"', "'"):
        return _read_string(text, at)
    found = _WORD.match(text, at)
    if found is None:
        raise NotJson(at)
    word, end = found.group(), found.end()
    if end == len(text):
        return Truncated(None), end  # the number may be incomplete
    if word.lower() in _WORDS:
        return _WORDS[word.lower()], end
    if _NUMBER.fullmatch(word) and len(word) < 300:
        number = json.loads(word)
        return (number if abs(number) != float("inf") else word), end
    if _ODD_NUMBER.fullmatch(word):
        return word, end
    raise NotJson(at)


def _read_string(text: str, at: int) -> tuple[Any, int]:
    match = _STRINGS[text[at]].match(text, at)
    assert match is not None
    value, closed = match.groups()
    if "\\" in value:
        value = make_well_formed(ESCAPE.sub(resolve_escape, value))
    return (value, match.end()) if closed else (Truncated(value), len(text))


def _read_container(text: str, at: int, depth: int) -> tuple[Any, int]:
    keyed, values, items = text[at] == "{", dict[str, Any](), list[Any]()
    at = _skip(_COMMAS, text, at + 1)
    while at < len(text):
        if text[at] == ("}" if keyed else "]"):
            return values if keyed else items, at + 1
        key: Any = ""
        if keyed:
            if text[at] not in "\"'":
                raise NotJson(at)
            key, at = _read_string(text, at)
            at = _skip(_SPACE, text, at)
            if isinstance(key, Truncated) or at == len(text):
                break
            if text[at] != ":":
                raise NotJson(at)
            at = _skip(_SPACE, text, at + 1)
            if at == len(text):
                break
        values[key], at = _read_value(text, at, depth + 1)
        items.append(values[key])
        at = _skip(_COMMAS, text, at)
    return Truncated(values if keyed else items), len(text)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def resolve_escape(escape: re.Match[str]) -> str:
    """Return what an `ESCAPE` stands for. One unknown to JSON stays unchanged."""
    code, letter = escape.groups()
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(letter) or (letter if letter in "\"'\\/" else escape.group())
