"""Patterns: whatever fits `build_json_pattern` is JSON that fits the schema, and how patterns are printed."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, Field

from retinue.core.schema.patterns import (
    MAX_DEPTH,
    Pattern,
    Repeat,
    Text,
    build_json_pattern,
    choice,
    line,
    optional,
    print_gbnf,
    print_regex,
    seq,
)
from retinue.mcp.schema_conversion import convert_schema


class Colour(StrEnum):
    RED = "red"
    GREEN = 'gr"ün'


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scalars(Strict):
    name: str
    count: int
    share: float
    sure: bool
    nothing: None


class Chosen(Strict):
    colour: Colour
    size: Literal["s", "m", 3]
    only: Literal["one"]
    either: int | Literal["many"] | None


class Bounded(Strict):
    code: Annotated[str, Field(min_length=2, max_length=3)]
    few: Annotated[list[int], Field(min_length=1, max_length=2)]
    none: Annotated[list[int], Field(max_length=0)] = []


class Optionals(Strict):
    a: int = 0
    b: bool = False
    c: Literal["x"] | None = None


class Mixed(Strict):
    first: int = 0
    needed: bool
    last: int = 0


class Inner(Strict):
    flags: Annotated[list[bool], Field(max_length=2)]
    chosen: Chosen | None = None


class Nested(Strict):
    others: Annotated[list[Inner], Field(max_length=2)]
    inner: Inner | None = None


class Chain(Strict):
    value: bool
    next: Chain | None = None


class Tree(Strict):
    children: Annotated[list[Tree], Field(max_length=1)] = []


MODELS: list[type[Strict]] = [Scalars, Chosen, Bounded, Optionals, Mixed, Nested, Chain, Tree]


def fitting(model: type[BaseModel], text: str) -> bool:
    return re.fullmatch(print_regex(build_json_pattern(model.model_json_schema(), max_string=8)), text) is not None


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_fits_the_pattern_is_json_that_fits_the_schema(data: st.DataObject, model: type[Strict]) -> None:
    pattern = print_regex(build_json_pattern(model.model_json_schema(), max_string=8))
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    model.model_validate(json.loads(text))


@pytest.mark.parametrize(
    "value",
    [
        Scalars(name='"b" \\ \n', count=-12, share=1.5e-7, sure=True, nothing=None),
        Chosen(colour=Colour.GREEN, size=3, only="one", either="many"),
        Bounded(code="ab", few=[0, 7]),
        Optionals(),
        Mixed(needed=True),
        Nested(inner=Inner(chosen=None, flags=[True]), others=[Inner(flags=[])]),
        Chain(value=True, next=Chain(value=False, next=Chain(value=True))),
        Tree(children=[Tree(children=[Tree()])]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_dumps_writes_fits_the_pattern(value: Strict) -> None:
    assert fitting(type(value), json.dumps(value.model_dump(mode="json", exclude_unset=True)))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("{}", True),
        ('{"a": 1}', True),
        ('{"b": true}', True),
        ('{"c": "x"}', True),
        ('{"a": 1, "c": null}', True),
        ('{"a": 1, "b": true, "c": null}', True),
        ('{, "b": true}', False),
        ('{"a": 1, }', False),
        ('{"a": 1 "b": true}', False),
        ('{"d": 1}', False),
    ],
)
def test_optional_properties_bring_their_own_commas(text: str, fits: bool) -> None:
    assert fitting(Optionals, text) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"needed": true}', True),
        ('{"needed": true, "first": 1}', True),
        ('{"needed": true, "first": 1, "last": 2}', True),
        ('{"first": 1}', False),
        ('{"needed": true, }', False),
    ],
)
def test_required_properties_come_first(text: str, fits: bool) -> None:
    assert fitting(Mixed, text) is fits


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "string", "maxLength": 2},
            ['""', '"ab"', '"\\n\\u00e9"'],
            ['"abc"', '"a\nb"', "a", '"\\x"', '"\\ud800"'],
        ),
        ({"type": "integer"}, ["0", "-7", "1234567890"], ["007", "1.0", "+1", "", "-"]),
        ({"type": "number"}, ["0", "-1.5", "1e10", "2.5E-3"], [".5", "1.", "NaN", "1e"]),
        ({"type": ["integer", "null"]}, ["1", "null"], ["true"]),
        ({"const": {"a": [1]}}, ['{"a": [1]}'], ["{}"]),
        ({"enum": ["a.b", 1, None]}, ['"a.b"', "1", "null"], ['"aXb"']),
        ({"oneOf": [{"type": "boolean"}, {"const": 3}]}, ["true", "3"], ["4"]),
        ({"allOf": [{"type": "boolean"}]}, ["false"], ["0"]),
        (
            {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
            ["[true, false]"],
            ["[]", "[true]", "[true,false]"],
        ),
        ({"type": "array"}, ["[]", '[1, "a", null]'], ["[1, ]", "[[1]]"]),
        ({"type": "object"}, ["{}"], ['{"a": 1}']),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ["{}", '{"a": 1}', '{"a b": 1, "c": 2}'],
            ['{"a": "x"}', '{"a": 1,}', '{"a": 1, }', '{"": 1}', "{1: 2}"],
        ),
        ({"type": "object", "additionalProperties": True}, ["{}", '{"a": 1, "b": "x"}'], ['{"a": }']),
        ({"type": "object", "additionalProperties": False}, ["{}"], ['{"a": 1}']),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
            ['{"a": 1, "b": 2}'],
            ["{}", '{"a": 1}'],
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            ["{}", '{"xa": 1}'],
            ['{"xa": true}'],
        ),
        (
            {
                **{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                "additionalProperties": {"type": "integer"},
            },
            ['{"a": true}', '{"a": true, "b": 1}'],
            ["{}", '{"b": 1}'],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2, "maxItems": 2},
            ["[1, true]"],
            ["[]", "[1]", "[true, 1]", "[1, true, 1]"],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}},
            ["[1]", "[1, true, false]"],
            ["[true]", "[1, 1]"],
        ),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "boolean"}]}, ["[1, true]"], ["[true, 1]"]),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, ["[[1], []]"], ["[1]"]),
        ({}, ['"a"', "1", "true", "null"], ["{}", ""]),
        ({"properties": {"a": True}, "type": "object", "required": ["a"]}, ['{"a": "x"}'], ["{}"]),
    ],
)
def test_schemas_and_what_fits_them(schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    pattern = print_regex(build_json_pattern(schema))
    assert [text for text in good if not re.fullmatch(pattern, text)] == []
    assert [text for text in bad if re.fullmatch(pattern, text)] == []


def test_maps_and_tuples_of_a_foreign_server_keep_their_types() -> None:
    votes = {"type": "object", "additionalProperties": {"type": "integer"}}
    place = {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}
    schema = {"type": "object", "properties": {"votes": votes, "place": place}, "required": ["votes", "place"]}
    pattern = print_regex(build_json_pattern(convert_schema(schema)))
    assert re.fullmatch(pattern, '{"votes": {"a": 1}, "place": [1, "x"]}')
    assert not re.fullmatch(pattern, '{"votes": {"a": "x"}, "place": [1, "x"]}')
    assert not re.fullmatch(pattern, '{"votes": {}, "place": ["x", 1]}')


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def test_nesting_ends_at_the_depth_limit() -> None:
    deepest = print_regex(build_json_pattern(nested(MAX_DEPTH)))
    assert re.fullmatch(deepest, '{"a": ' * MAX_DEPTH + "true" + "}" * MAX_DEPTH)
    deeper = print_regex(build_json_pattern(nested(MAX_DEPTH + 1)))
    assert re.fullmatch(deeper, '{"a": ' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH)


def test_a_choice_costs_no_depth() -> None:
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(MAX_DEPTH):
        schema = {"anyOf": [{"type": "array", "items": schema, "minItems": 1}, {"type": "null"}]}
    assert re.fullmatch(print_regex(build_json_pattern(schema)), "[" * MAX_DEPTH + "true" + "]" * MAX_DEPTH)


def test_references_that_lead_nowhere_or_in_circles_come_to_an_end() -> None:
    circle = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}}
    assert re.fullmatch(print_regex(build_json_pattern(circle)), "null")
    assert re.fullmatch(print_regex(build_json_pattern({"$ref": "#/$defs/gone"})), "true")


# ── printing ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        (Text('say "hi"\n'), '"say \\"hi\\"\\n"'),
        (seq("a", "b"), '"a" "b"'),
        (seq(), '""'),
        (choice("a", seq("b", "c")), '("a" | "b" "c")'),
        (optional(Text("a")), '("a")?'),
        (Repeat(Text("a"), 2, 5), '("a"){2,5}'),
        (line(3), r"[^ \t\r\n] ([^\r\n]){0,2}"),
        (line(3, but="]"), r"[^ \t\r\n]] ([^\r\n]]){0,2}"),
        (build_json_pattern({"enum": ["a", 1]}), r'("\"a\"" | "1")'),
    ],
)
def test_patterns_print_as_gbnf(pattern: Pattern, printed: str) -> None:
    assert print_gbnf(pattern) == f"root ::= {printed}\n"


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        (seq("a.b", "*"), "a.b*", "aXb*"),
        (choice("a", "ab"), "ab", "abb"),
        (optional(Text("ab")), "", "a"),
        (Repeat(Text("ab"), 2, 3), "abab", "ab"),
        (line(3), "a b", "abcd"),
        (line(3), "abc", " ab"),
        (line(3), "a", ""),
        (line(3), "a", "a\n"),
    ],
)
def test_patterns_print_as_regular_expressions(pattern: Pattern, fits: str, fails: str) -> None:
    assert re.fullmatch(print_regex(pattern), fits)
    assert not re.fullmatch(print_regex(pattern), fails)
