"""What a reply may look like, written once and printed in each engine's notation.

A `Pattern` is a regular expression as a tree. It prints itself as GBNF (llama.cpp) and as a regular
expression (vLLM, TGI, and Python's `re`, which the tests use to generate and to check replies).
`json_pattern` turns a JSON Schema into a pattern. Everything is bounded, so a model that rambles
comes to an end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_STRING = 400  # characters in a JSON string that names no maxLength
MAX_ITEMS = 16  # items in an array that names no maxItems
MAX_DEPTH = 8  # nesting of objects, arrays and references; what lies deeper is a scalar


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


# ── JSON Schema to pattern ───────────────────────────────────────────────────────────────────────

_DIGIT = Chars("0-9")
_INTEGER = seq(optional(Text("-")), choice("0", seq(Chars("1-9"), Repeat(_DIGIT, 0, 15))))
_NUMBER = seq(
    _INTEGER,
    optional(seq(".", Repeat(_DIGIT, 1, 16))),
    optional(seq(Chars("eE"), optional(Chars("+\\-")), Repeat(_DIGIT, 1, 2))),
)
_BOOLEAN = choice("true", "false")
_CHARACTER = choice(
    Chars(r'^"\\\x00-\x1f'),
    seq("\\", choice(Chars(r'"\\/bfnrt'), seq("u", Chars("0-9a-cA-C"), Repeat(Chars("0-9a-fA-F"), 3, 3)))),
)


def json_pattern(schema: Mapping[str, Any], max_string: int = MAX_STRING) -> Pattern:
    """The JSON texts that fit `schema`, in the layout `json.dumps` gives them.

    Knows types, properties, required, items, enum, const, anyOf, oneOf, allOf of one, local $ref and
    the length bounds. What it does not know (pattern, minimum, …) is left to validation afterwards.
    """
    return _json(schema, schema.get("$defs", {}), max_string, MAX_DEPTH)


def _json(schema: Mapping[str, Any] | bool, defs: Mapping[str, Any], string: int, depth: int) -> Pattern:
    def again(inner: Mapping[str, Any] | bool) -> Pattern:
        return _json(inner, defs, string, depth - 1)

    if isinstance(schema, bool):
        schema = {}
    if "$ref" in schema and depth > 0:
        return again(defs.get(str(schema["$ref"]).rpartition("/")[2], {}))
    if "const" in schema:
        return Text(json.dumps(schema["const"]))
    if schema.get("enum"):
        return choice(*(json.dumps(value) for value in schema["enum"]))
    if options := schema.get("anyOf") or schema.get("oneOf"):
        shallow = [option for option in options if depth > 0 or not _nests(option)]
        return choice(*(_json(option, defs, string, depth) for option in shallow or options))
    if len(schema.get("allOf", ())) == 1:
        return _json(schema["allOf"][0], defs, string, depth)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    return _typed(kinds, schema, again, string, depth)


def _nests(schema: Mapping[str, Any] | bool) -> bool:
    return not isinstance(schema, bool) and ("$ref" in schema or schema.get("type") in ("array", "object"))


def _typed(kinds: Sequence[str], schema: Mapping[str, Any], again: Any, string: int, depth: int) -> Pattern:
    patterns: list[Pattern] = []
    for kind in kinds or ["string", "number", "boolean", "null"]:
        match kind:
            case "string":
                patterns.append(_string(schema, string))
            case "integer":
                patterns.append(_INTEGER)
            case "number":
                patterns.append(_NUMBER)
            case "boolean":
                patterns.append(_BOOLEAN)
            case "null":
                patterns.append(Text("null"))
            case "array" if depth > 0:
                patterns.append(_array(schema, again))
            case "object" if depth > 0:
                patterns.append(_object(schema, again))
            case _:
                patterns.append(Text("[]" if kind == "array" else "{}"))
    return patterns[0] if len(patterns) == 1 else Choice(tuple(patterns))


def _string(schema: Mapping[str, Any], most: int) -> Pattern:
    least = schema.get("minLength", 0)
    return seq('"', Repeat(_CHARACTER, least, max(least, min(schema.get("maxLength", most), most))), '"')


def _array(schema: Mapping[str, Any], again: Any) -> Pattern:
    item = again(schema.get("items", {}))
    least = schema.get("minItems", 0)
    most = max(least, min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS))
    if most == 0:
        return Text("[]")
    filled = seq("[", item, Repeat(seq(", ", item), max(least - 1, 0), most - 1), "]")
    return filled if least else choice("[]", filled)


def _object(schema: Mapping[str, Any], again: Any) -> Pattern:
    properties = schema.get("properties", {})
    needed = [name for name in properties if name in schema.get("required", ())]
    free = [name for name in properties if name not in needed]
    pairs = {name: seq(json.dumps(name) + ": ", again(inner)) for name, inner in properties.items()}

    def later(names: Sequence[str]) -> list[Pattern]:
        return [optional(seq(", ", pairs[name])) for name in names]

    if needed:
        first = seq(pairs[needed[0]], *(seq(", ", pairs[name]) for name in needed[1:]), *later(free))
        return seq("{", first, "}")
    if not free:
        return Text("{}")
    starts = [seq(pairs[name], *later(free[at + 1 :])) for at, name in enumerate(free)]
    return seq("{", optional(choice(*starts)), "}")
