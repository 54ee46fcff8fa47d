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


class NotJson(Exception):
    """No value starts here; parsing fails at `at`."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no value at {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Truncated:
    """The available part of a value whose end is missing."""

    value: Any


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
    while followed <= _FOLLOWED * len(text) and (begin := _find_bracket(text, at)) >= 0:
        try:
            value, end = _read_value(text, begin, 0)
        except NotJson as wrong:
            followed += wrong.at - begin
            at = begin + 1
            continue
        yield FoundValue(value, begin, end)
        at = begin + 1 if isinstance(value, Truncated) else end
        followed += end - begin


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


def _find_bracket(text: str, at: int) -> int:
    match = _BRACKET.search(text, at)
    return match.start() if match else -1


def _read_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Parse the value that begins at `at`; return it with its end."""
    if depth > MAX_DEPTH:
        raise NotJson(at)
    match text[at : at + 1]:
        case "{":
            return _read_object(text, at + 1, depth)
        case "[":
            return _read_array(text, at + 1, depth)
        case '"' | "'" as quote:
            return _read_string(text, at, quote)
    word = _WORD.match(text, at)
    if word is None:
        raise NotJson(at)
    if word.end() == len(text):
        return Truncated(None), word.end()  # the number may be incomplete
    return _read_scalar(word.group(), at), word.end()


def _read_string(text: str, at: int, quote: str) -> tuple[Any, int]:
    match = _STRINGS[quote].match(text, at)
    assert match is not None
    value = _unescape(match.group(1))
    return (value if match.group(2) else Truncated(value)), match.end() if match.group(2) else len(text)


def _read_array(text: str, at: int, depth: int) -> tuple[Any, int]:
    values: list[Any] = []
    while True:
        at = _match_end(_COMMAS, text, at)
        if at >= len(text):
            return Truncated(values), at
        if text[at] == "]":
            return values, at + 1
        value, at = _read_value(text, at, depth + 1)
        values.append(value)


def _read_object(text: str, at: int, depth: int) -> tuple[Any, int]:
    values: dict[str, Any] = {}
    while True:
        at = _match_end(_COMMAS, text, at)
        if at >= len(text):
            return Truncated(values), at
        if text[at] == "}":
            return values, at + 1
        if text[at] not in "\"'":
            raise NotJson(at)
        key, at = _read_string(text, at, text[at])
        at = _match_end(_SPACE, text, at)
        if isinstance(key, Truncated) or at >= len(text):
            return Truncated(values), len(text)
        if text[at] != ":":
            raise NotJson(at)
        at = _match_end(_SPACE, text, at + 1)
        if at >= len(text):
            return Truncated(values), at
        values[key], at = _read_value(text, at, depth + 1)


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def _read_scalar(word: str, at: int) -> Any:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _NUMBER.fullmatch(word) and len(word) < 300:
        number = json.loads(word)
        return number if abs(number) != float("inf") else word
    if word.lstrip("+-").lower() in ("nan", "inf", "infinity") or re.fullmatch(
        r"[-+]?[\d.]++(?:[eE][-+]?\d++)?+", word
    ):
        return word  # not a JSON number, but a common way to write one
    raise NotJson(at)


def _unescape(text: str) -> str:
    """Unescape a string; escapes unknown to JSON stay unchanged."""
    if "\\" not in text:
        return text
    return make_well_formed(ESCAPE.sub(resolve_escape, text))


def resolve_escape(escape: re.Match[str]) -> str:
    """Return what an `ESCAPE` stands for. One unknown to JSON stays unchanged."""
    code, letter = escape.groups()
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(letter) or (letter if letter in "\"'\\/" else escape.group())
