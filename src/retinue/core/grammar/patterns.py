"""What a reply may look like, written once and printed in each engine's notation.

A `Pattern` is a regular expression as a tree. It prints itself as GBNF (llama.cpp) and as a regular
expression (vLLM, TGI, and Python's `re`, which the tests use to generate and to check replies).
`json_pattern` turns a JSON Schema into a pattern. Everything is bounded, so a model that rambles
comes to an end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character: `set` as between brackets in a regular expression, e.g. `a-z` or `^\\n`."""

    set: str


@dataclass(frozen=True, slots=True)
class Seq:
    """One after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` times."""

    part: Pattern
    least: int
    most: int


Pattern = Text | Chars | Seq | Choice | Repeat


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """What a reply must look like: as a `pattern` of its text, or for engines that know only JSON
    Schema (OpenAI's `response_format`) as a `schema` of a JSON reply that says the same.

    Compared by identity: a strategy makes one and asks with it again and again, so what an engine
    printed for it is kept.
    """

    pattern: Pattern
    schema: Mapping[str, Any]


def seq(*parts: Pattern | str) -> Pattern:
    """The parts one after the other; a string stands for itself."""
    return Seq(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def choice(*options: Pattern | str) -> Pattern:
    """One of the options; a string stands for itself."""
    return Choice(tuple(Text(option) if isinstance(option, str) else option for option in options))


def optional(part: Pattern) -> Pattern:
    """`part` or nothing."""
    return Repeat(part, 0, 1)


def line(most: int, but: str = "") -> Pattern:
    """1 to `most` characters of one line, not blank at its start, without the characters `but`."""
    return seq(Chars(rf"^\s{but}"), Repeat(Chars(rf"^\r\n{but}"), 0, most - 1))


# ── printing ─────────────────────────────────────────────────────────────────────────────────────


def gbnf(pattern: Pattern) -> str:
    """`pattern` as a llama.cpp grammar (GBNF). What is repeated is a rule of its own: llama.cpp refuses
    repetitions within repetitions that come to thousands."""
    rules: dict[Pattern, str] = {}
    root = _gbnf(pattern, rules)
    named = "".join(f"{name} ::= {_gbnf(part, rules)}\n" for part, name in _all(rules))
    return f"root ::= {root}\n{named}"


def _all(rules: dict[Pattern, str]) -> Iterator[tuple[Pattern, str]]:
    """The rules, also those that come up while others are printed."""
    done = 0
    while done < len(rules):
        part, name = list(rules.items())[done]
        done += 1
        yield part, name


def _gbnf(pattern: Pattern, rules: dict[Pattern, str]) -> str:
    match pattern:
        case Text(text):
            return json.dumps(text, ensure_ascii=False)
        case Chars(chars):
            return f"[{chars.replace(chr(92) + 's', ' ' + chr(92) + 't' + chr(92) + 'r' + chr(92) + 'n')}]"
        case Seq(parts):
            return " ".join(_gbnf(part, rules) for part in parts) or '""'
        case Choice(options):
            return f"({' | '.join(_gbnf(option, rules) for option in options)})"
        case Repeat(part, least, most):
            simple = isinstance(part, Text | Chars)
            name = f"({_gbnf(part, rules)})" if simple else rules.setdefault(part, f"r{len(rules)}")
            return f"{name}?" if (least, most) == (0, 1) else f"{name}{{{least},{most}}}"


def regex(pattern: Pattern) -> str:
    """`pattern` as a regular expression without look-around or back-references."""
    match pattern:
        case Text(text):
            return re.escape(text)
        case Chars(chars):
            return f"[{chars}]"
        case Seq(parts):
            return "".join(map(regex, parts))
        case Choice(options):
            return f"(?:{'|'.join(map(regex, options))})"
        case Repeat(part, 0, 1):
            return f"(?:{regex(part)})?"
        case Repeat(part, least, most):
            return f"(?:{regex(part)}){{{least},{most}}}"
