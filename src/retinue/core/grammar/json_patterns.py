"""Converts a JSON Schema into a pattern of the JSON texts that fit it. The size of the pattern is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .patterns import Chars, Choice, Pattern, Repeat, Seq, Text, choice, optional, seq

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
_BOOLEAN = choice("true", "false")
_CHARACTER = choice(
    Chars(r'^"\\\x00-\x1f'),
    seq("\\", choice(Chars(r'"\\/bfnrt'), seq("u", Chars("0-9a-cA-C"), Repeat(Chars("0-9a-fA-F"), 3, 3)))),
)


_ANY_TEXT = Repeat(Chars(r"^\x00"), 0, 1_500)


class _TooLarge(Exception):
    """The pattern would be too large for any engine."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The state of a conversion: definitions, the string limit, the optional properties in fixed order, and how many
    parts are still available.
    """

    defs: Mapping[str, Any]
    string: int
    free: int
    left: list[int]

    def spend(self, parts: int) -> None:
        self.left[0] -= parts
        if self.left[0] < 0:
            raise _TooLarge


def json_pattern(schema: Mapping[str, Any], max_string: int = MAX_STRING) -> Pattern:
    """Return a pattern of the JSON texts that fit `schema`, in the layout of `json.dumps`.

    Supports types, properties, required, additionalProperties, items, prefixItems, enum, const, anyOf, oneOf,
    single-schema allOf, local $ref and length bounds. Other keywords (pattern, minimum, …) are left to later
    validation. So is the order of optional properties, and then everything, if the pattern would exceed about
    `MAX_PRINTED` characters, e.g. because references branch.
    """
    for free in (_MAX_FREE, 1):
        reading = _Reading(schema.get("$defs", {}), max_string, free, [_MAX_PARTS])
        with suppress(_TooLarge):
            pattern = _json(schema, reading, MAX_DEPTH)
            if _printed(pattern, {}) <= MAX_PRINTED:
                return pattern
    return _ANY_TEXT


def _printed(pattern: Pattern, known: dict[int, int]) -> int:
    """Return the approximate printed length; `known` caches parts, which are printed again at each occurrence."""
    if (size := known.get(id(pattern))) is None:
        match pattern:
            case Text(text) | Chars(text):
                size = len(text) + 2
            case Seq(parts) | Choice(parts):
                size = 2 + sum(_printed(part, known) for part in parts)
            case Repeat(part):
                size = 8 + _printed(part, known)
        known[id(pattern)] = size
    return size


def _json(schema: Mapping[str, Any] | bool, reading: _Reading, depth: int) -> Pattern:
    def again(inner: Mapping[str, Any] | bool) -> Pattern:
        return _json(inner, reading, depth - 1)

    reading.spend(1)
    if isinstance(schema, bool):
        schema = {}
    if "$ref" in schema and depth > 0:
        return again(reading.defs.get(str(schema["$ref"]).rpartition("/")[2], {}))
    if "const" in schema:
        return _value(schema["const"], reading)
    if schema.get("enum"):
        return choice(*(_value(value, reading) for value in schema["enum"]))
    if options := schema.get("anyOf") or schema.get("oneOf"):
        shallow = [option for option in options if depth > 0 or not _nests(option)]
        return choice(*(_json(option, reading, depth) for option in shallow or options))
    if len(schema.get("allOf", ())) == 1:
        return _json(schema["allOf"][0], reading, depth)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    return _typed(kinds, schema, again, reading, depth)


def _value(value: Any, reading: _Reading) -> Pattern:
    text = json.dumps(value)
    reading.spend(1 + len(text) // 20)
    return Text(text)


def _nests(schema: Mapping[str, Any] | bool) -> bool:
    return not isinstance(schema, bool) and ("$ref" in schema or schema.get("type") in ("array", "object"))


def _typed(kinds: Sequence[str], schema: Mapping[str, Any], again: Any, reading: _Reading, depth: int) -> Pattern:
    patterns: list[Pattern] = []
    for kind in kinds or ["string", "number", "boolean", "null"]:
        match kind:
            case "string":
                patterns.append(_string(schema, reading.string))
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
                patterns.append(_object(schema, again, reading))
            case _:
                patterns.append(Text("[]" if kind == "array" else "{}"))
    return patterns[0] if len(patterns) == 1 else Choice(tuple(patterns))


def _least(schema: Mapping[str, Any], name: str) -> int:
    least = int(schema.get(name, 0))
    if least > _MOST_LEAST[name]:
        raise _TooLarge
    return least


def _string(schema: Mapping[str, Any], most: int) -> Pattern:
    least = _least(schema, "minLength")
    return seq('"', Repeat(_CHARACTER, least, max(least, int(min(schema.get("maxLength", most), most)))), '"')


def _array(schema: Mapping[str, Any], again: Any) -> Pattern:
    first, rest = schema.get("prefixItems"), schema.get("items", {})
    if isinstance(rest, list):  # how it was written before there was `prefixItems`
        first, rest = rest, schema.get("additionalItems", {})
    first = [again(one) for one in first] if isinstance(first, list) else []
    least = _least(schema, "minItems")
    most = max(least, int(min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)))
    if first:
        return _tuple(first[: schema.get("maxItems", len(first))], rest, least, most, again)
    if most == 0 or rest is False:
        return Text("[]")
    item = again(rest)
    filled = seq("[", item, Repeat(seq(", ", item), max(least - 1, 0), most - 1), "]")
    return filled if least else choice("[]", filled)


def _tuple(first: Sequence[Pattern], rest: Any, least: int, most: int, again: Any) -> Pattern:
    """Return a pattern of arrays that begin with `first`, all of which is written, also where less would do."""
    listed = [part for one in first for part in (", ", one)][1:]
    more = 0 if rest is False else most - len(first)
    if more <= 0 or (rest in ({}, True) and least <= len(first)):
        return seq("[", *listed, "]")
    return seq("[", *listed, Repeat(seq(", ", again(rest)), max(least - len(first), 0), more), "]")


def _object(schema: Mapping[str, Any], again: Any, reading: _Reading) -> Pattern:
    properties = schema.get("properties", {})
    wanted = set(schema.get("required", ()))
    needed = [name for name in properties if name in wanted]
    free = [name for name in properties if name not in wanted]
    reading.spend(sum(len(name) // 20 for name in properties))
    pairs = {name: seq(json.dumps(name) + ": ", again(inner)) for name, inner in properties.items()}
    maybe = {name: optional(seq(", ", pairs[name])) for name in free}
    other = _other_pair(schema, again)

    if needed:
        first = seq(pairs[needed[0]], *(seq(", ", pairs[name]) for name in needed[1:]), *maybe.values())
        others = [] if other is None else [Repeat(seq(", ", other), 0, MAX_ITEMS)]
        return seq("{", first, *others, "}")
    if other is not None:
        return _any_pairs(choice(*pairs.values(), other) if pairs else other, schema)
    if not free:
        return Text("{}")
    if len(free) > reading.free:
        pair = choice(*pairs.values())
        return seq("{", optional(seq(pair, Repeat(seq(", ", pair), 0, len(free) - 1))), "}")
    starts = [seq(pairs[name], *(maybe[later] for later in free[at + 1 :])) for at, name in enumerate(free)]
    return seq("{", optional(choice(*starts)), "}")


def _other_pair(schema: Mapping[str, Any], again: Any) -> Pattern | None:
    """Return the pattern of a property that `schema` does not name, or `None` unless it says that there may be some."""
    others = [*schema.get("patternProperties", {}).values()]
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping) or more is True:
        others.append(more)
    if not others:
        return None
    key = seq('"', Repeat(_CHARACTER, 1, _MAX_KEY), '": ')
    return seq(key, choice(*(again(inner) for inner in others)) if len(others) > 1 else again(others[0]))


def _any_pairs(pair: Pattern, schema: Mapping[str, Any]) -> Pattern:
    least = min(int(schema.get("minProperties", 0)), MAX_ITEMS)
    filled = seq("{", pair, Repeat(seq(", ", pair), max(least - 1, 0), MAX_ITEMS - 1), "}")
    return filled if least else choice("{}", filled)
