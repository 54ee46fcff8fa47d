"""Constraints on replies, written once and printed in each engine's notation.

A `Pattern` is a regular expression as a tree. It prints itself as GBNF (llama.cpp) and as a regular expression
(vLLM, TGI, and Python's `re`, with which the tests generate and check replies). `json_pattern` converts a JSON Schema
into a pattern. Everything is bounded, so a rambling model terminates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """A literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character; `set` is the inside of a bracket expression, e.g. `a-z` or `^\\n`."""

    set: str


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence of parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several alternatives."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part repeated `least` to `most` times."""

    part: Pattern
    least: int
    most: int


Pattern = Text | Chars | Seq | Choice | Repeat


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """A constraint on a reply: a `pattern` of its text, or for engines that only support JSON Schema (OpenAI's
    `response_format`) an equivalent `schema` of a JSON reply.

    Compared by identity: a strategy creates one and reuses it, so engines cache its printed form.
    """

    pattern: Pattern
    schema: Mapping[str, Any]


def seq(*parts: Pattern | str) -> Pattern:
    """Return the parts in sequence; a string is a literal."""
    return Seq(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def choice(*options: Pattern | str) -> Pattern:
    """Return a choice of the options; a string is a literal."""
    return Choice(tuple(Text(option) if isinstance(option, str) else option for option in options))


def optional(part: Pattern) -> Pattern:
    """Return an optional `part`."""
    return Repeat(part, 0, 1)


def line(most: int, but: str = "") -> Pattern:
    """Match 1 to `most` characters of one line that does not start blank, excluding the characters in `but`."""
    return seq(Chars(rf"^\s{but}"), Repeat(Chars(rf"^\r\n{but}"), 0, most - 1))


# ── printing ─────────────────────────────────────────────────────────────────────────────────────


def gbnf(pattern: Pattern) -> str:
    """Print `pattern` as a llama.cpp grammar (GBNF).

    Each repeated part becomes a rule of its own, because llama.cpp refuses nested repetitions that expand to thousands.
    """
    rules: dict[Pattern, str] = {}
    root = _gbnf(pattern, rules)
    named = "".join(f"{name} ::= {_gbnf(part, rules)}\n" for part, name in _all(rules))
    return f"root ::= {root}\n{named}"


def _all(rules: dict[Pattern, str]) -> Iterator[tuple[Pattern, str]]:
    """Yield all rules, including those added while others are printed."""
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
    """Print `pattern` as a regular expression without look-around or back-references."""
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
