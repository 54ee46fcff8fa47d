"""Constraints on replies, written once and printed in each engine's notation.

A `Pattern` is a regular expression as a tree. It prints itself as GBNF (llama.cpp) and as a regular expression
(vLLM, TGI, and Python's `re`, with which the tests generate and check replies). `build_json_pattern` converts a JSON
Schema into a pattern. Everything is bounded, so a rambling model terminates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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
    `response_format`) an equivalent `schema` of a JSON reply. Compared by identity: a strategy creates one and reuses
    it, so engines cache its printed form."""

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

_BLANK, _BLANKS = r"\s", r" \t\r\n"  # the same in GBNF


def print_gbnf(pattern: Pattern) -> str:
    """Print `pattern` as a llama.cpp grammar (GBNF). Each repeated part becomes a rule of its own, because llama.cpp
    refuses nested repetitions that expand to thousands."""
    rules: dict[Pattern, str] = {}  # the repeated parts, to which printing one may add others

    def write(pattern: Pattern) -> str:
        match pattern:
            case Text(text):
                return json.dumps(text, ensure_ascii=False)
            case Chars(chars):
                return f"[{chars.replace(_BLANK, _BLANKS)}]"
            case Seq(parts):
                return " ".join(map(write, parts)) or '""'
            case Choice(options):
                return f"({' | '.join(map(write, options))})"
            case Repeat(part, least, most):
                simple = isinstance(part, Text | Chars)
                name = f"({write(part)})" if simple else rules.setdefault(part, f"r{len(rules)}")
                return f"{name}?" if (least, most) == (0, 1) else f"{name}{{{least},{most}}}"

    lines = [f"root ::= {write(pattern)}"]
    while len(lines) <= len(rules):
        part, name = list(rules.items())[len(lines) - 1]
        lines.append(f"{name} ::= {write(part)}")
    return "\n".join(lines) + "\n"


def print_regex(pattern: Pattern) -> str:
    """Print `pattern` as a regular expression without look-around or back-references."""
    match pattern:
        case Text(text):
            return re.escape(text)
        case Chars(chars):
            return f"[{chars}]"
        case Seq(parts):
            return "".join(map(print_regex, parts))
        case Choice(options):
            return f"(?:{'|'.join(map(print_regex, options))})"
        case Repeat(part, 0, 1):
            return f"(?:{print_regex(part)})?"
        case Repeat(part, least, most):
            return f"(?:{print_regex(part)}){{{least},{most}}}"


# ── from JSON Schema ─────────────────────────────────────────────────────────────────────────────

MAX_STRING = 400  # characters of a JSON string without a maxLength
MAX_ITEMS = 16  # items of an array without a maxItems
_MAX_KEY = 64  # characters of a property's name that the schema leaves open
MAX_DEPTH = 8  # nesting of objects, arrays and references; anything deeper is a scalar
MAX_PRINTED = 200_000  # approximate characters of a pattern printed as a regular expression
_MAX_PARTS = 4_000  # of a pattern
_MAX_FREE = 16  # optional properties in fixed order; beyond that, any order, or the pattern would grow quadratically
_MOST_LEAST = {"minLength": 1_000, "minItems": 64}  # engines expand repetitions

_DIGIT = Chars("0-9")
_INTEGER = seq(optional(Text("-")), choice("0", seq(Chars("1-9"), Repeat(_DIGIT, 0, 15))))
_NUMBER = seq(
    _INTEGER,
    optional(seq(".", Repeat(_DIGIT, 1, 16))),
    optional(seq(Chars("eE"), optional(Chars("+\\-")), Repeat(_DIGIT, 1, 2))),
)
_CHARACTER = choice(
    Chars(r'^"\\\x00-\x1f'),
    seq("\\", choice(Chars(r'"\\/bfnrt'), seq("u", Chars("0-9a-cA-C"), Repeat(Chars("0-9a-fA-F"), 3, 3)))),
)
_SCALARS = {"integer": _INTEGER, "number": _NUMBER, "boolean": choice("true", "false"), "null": Text("null")}
_ANY_TEXT = Repeat(Chars(r"^\x00"), 0, 1_500)


class _TooLarge(Exception):
    """The pattern would be too large for any engine."""


def build_json_pattern(schema: Mapping[str, Any], max_string: int = MAX_STRING) -> Pattern:
    """Return a pattern of the JSON texts that fit `schema`, in the layout of `json.dumps`.

    Supports types, properties, required, additionalProperties, items, prefixItems, enum, const, anyOf, oneOf,
    single-schema allOf, local $ref and length bounds. Other keywords (pattern, minimum, …) are left to later
    validation. So is the order of optional properties, and then everything, if the pattern would exceed about
    `MAX_PRINTED` characters, e.g. because references branch."""
    for free in (_MAX_FREE, 1):
        with suppress(_TooLarge):
            pattern = _Conversion(schema.get("$defs", {}), max_string, free).convert(schema, MAX_DEPTH)
            if _measure_printed(pattern, {}) <= MAX_PRINTED:
                return pattern
    return _ANY_TEXT


def _measure_printed(pattern: Pattern, known: dict[int, int]) -> int:
    """Return the approximate printed length; `known` caches parts, which are printed again at each occurrence."""
    if (size := known.get(id(pattern))) is None:
        match pattern:
            case Text(text) | Chars(text):
                size = len(text) + 2
            case Seq(parts) | Choice(parts):
                size = 2 + sum(_measure_printed(part, known) for part in parts)
            case Repeat(part):
                size = 8 + _measure_printed(part, known)
        known[id(pattern)] = size
    return size


@dataclass(slots=True)
class _Conversion:
    """A conversion under way: definitions, the string limit, how many optional properties have a fixed order, and how
    many parts are still available. `depth` is the nesting that is left."""

    defs: Mapping[str, Any]
    string: int
    free: int
    left: int = _MAX_PARTS

    def _spend(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            raise _TooLarge

    def convert(self, schema: Mapping[str, Any] | bool, depth: int) -> Pattern:
        """Return the pattern of one schema."""
        self._spend(1)
        if isinstance(schema, bool):
            schema = {}
        if "$ref" in schema and depth > 0:
            return self.convert(self.defs.get(str(schema["$ref"]).rpartition("/")[2], {}), depth - 1)
        if "const" in schema:
            return self._convert_value(schema["const"])
        if schema.get("enum"):
            return choice(*map(self._convert_value, schema["enum"]))
        if options := schema.get("anyOf") or schema.get("oneOf"):
            shallow = [option for option in options if depth > 0 or not _is_nested(option)]
            return choice(*(self.convert(option, depth) for option in shallow or options))
        if len(schema.get("allOf", ())) == 1:
            return self.convert(schema["allOf"][0], depth)
        kinds = schema.get("type") or ["string", "number", "boolean", "null"]
        patterns = [self._convert_kind(kind, schema, depth) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return patterns[0] if len(patterns) == 1 else Choice(tuple(patterns))

    def _convert_value(self, value: Any) -> Pattern:
        text = json.dumps(value)
        self._spend(1 + len(text) // 20)
        return Text(text)

    def _convert_kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> Pattern:
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "string":
            least = _read_least(schema, "minLength")
            most = max(least, int(min(schema.get("maxLength", self.string), self.string)))
            return seq('"', Repeat(_CHARACTER, least, most), '"')
        if depth <= 0:
            return Text("[]" if kind == "array" else "{}")
        if kind == "array":
            return self._convert_array(schema, depth - 1)
        return self._convert_object(schema, depth - 1) if kind == "object" else Text("{}")

    def _convert_array(self, schema: Mapping[str, Any], depth: int) -> Pattern:
        """Return the pattern of arrays. All of what they are to begin with is written, also where less would do."""
        first, rest = schema.get("prefixItems"), schema.get("items", {})
        if isinstance(rest, list):  # how it was written before there was `prefixItems`
            first, rest = rest, schema.get("additionalItems", {})
        begin = [self.convert(one, depth) for one in first] if isinstance(first, list) else []
        least = _read_least(schema, "minItems")
        most = max(least, int(min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)))
        if begin:
            begin = begin[: schema.get("maxItems", len(begin))]
            listed = [part for one in begin for part in (", ", one)][1:]
            more = 0 if rest is False else most - len(begin)
            if more <= 0 or (rest in ({}, True) and least <= len(begin)):
                return seq("[", *listed, "]")
            item = self.convert(rest, depth)
            return seq("[", *listed, Repeat(seq(", ", item), max(least - len(begin), 0), more), "]")
        if most == 0 or rest is False:
            return Text("[]")
        item = self.convert(rest, depth)
        filled = seq("[", item, Repeat(seq(", ", item), max(least - 1, 0), most - 1), "]")
        return filled if least else choice("[]", filled)

    def _convert_object(self, schema: Mapping[str, Any], depth: int) -> Pattern:
        properties, wanted = schema.get("properties", {}), set(schema.get("required", ()))
        needed = [name for name in properties if name in wanted]
        free = [name for name in properties if name not in wanted]
        self._spend(sum(len(name) // 20 for name in properties))
        pairs = {name: seq(json.dumps(name) + ": ", self.convert(inner, depth)) for name, inner in properties.items()}
        maybe = {name: optional(seq(", ", pairs[name])) for name in free}
        other = self._convert_other_pair(schema, depth)
        if needed:
            first = seq(pairs[needed[0]], *(seq(", ", pairs[name]) for name in needed[1:]), *maybe.values())
            others = [] if other is None else [Repeat(seq(", ", other), 0, MAX_ITEMS)]
            return seq("{", first, *others, "}")
        if other is not None:
            pair = choice(*pairs.values(), other) if pairs else other
            least = min(int(schema.get("minProperties", 0)), MAX_ITEMS)
            filled = seq("{", pair, Repeat(seq(", ", pair), max(least - 1, 0), MAX_ITEMS - 1), "}")
            return filled if least else choice("{}", filled)
        if not free:
            return Text("{}")
        if len(free) > self.free:
            pair = choice(*pairs.values())
            return seq("{", optional(seq(pair, Repeat(seq(", ", pair), 0, len(free) - 1))), "}")
        starts = [seq(pairs[name], *(maybe[later] for later in free[at + 1 :])) for at, name in enumerate(free)]
        return seq("{", optional(choice(*starts)), "}")

    def _convert_other_pair(self, schema: Mapping[str, Any], depth: int) -> Pattern | None:
        """Return the pattern of a property that `schema` does not name, or `None` unless it says that there may be
        some."""
        others = [*schema.get("patternProperties", {}).values()]
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) or more is True:
            others.append(more)
        if not others:
            return None
        values = [self.convert(inner, depth) for inner in others]
        key = seq('"', Repeat(_CHARACTER, 1, _MAX_KEY), '": ')
        return seq(key, choice(*values) if len(values) > 1 else values[0])


def _is_nested(schema: Mapping[str, Any] | bool) -> bool:
    return not isinstance(schema, bool) and ("$ref" in schema or schema.get("type") in ("array", "object"))


def _read_least(schema: Mapping[str, Any], name: str) -> int:
    least = int(schema.get(name, 0))
    if least > _MOST_LEAST[name]:
        raise _TooLarge
    return least
