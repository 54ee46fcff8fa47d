"""A stranger's schema, and values held against it: both end, whatever they are made of."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue import UsageError
from retinue.core.schema.answers import read_answer_type
from retinue.core.schema.json_schema import compile_pattern, make_validator
from retinue.core.schema.patterns import MAX_PRINTED, build_json_pattern, print_gbnf, print_regex
from retinue.errors import DataError

BACKTRACKING = ("^(a+)+$", "^(a|a)*$", "^(.*?,){30}P", "(x+x+)+y", "^([a-zA-Z0-9])(([.-]|[_]+)?([a-zA-Z0-9]+))*$")
TOO_LONG = "the answer: it takes too long to hold this against the schema; want a smaller one"


def chain(word: str, more: Any = None) -> dict[str, Any]:
    """Each of 40 schemas is the next one, twice."""
    next_ = [{"$ref": f"#/$defs/d{at + 1}"} for at in range(40)]
    defs: dict[str, Any] = {f"d{at}": {word: [one, one]} for at, one in enumerate(next_)}
    return {**(more or {}), "$ref": "#/$defs/d0", "$defs": {**defs, "d40": {"type": "string"}}}


@pytest.mark.parametrize("pattern", BACKTRACKING)
@pytest.mark.parametrize("dialect", ["draft-03", "draft-04", "draft-06", "draft-07"])
def test_a_pattern_that_would_backtrack_for_ever_is_matched(pattern: str, dialect: str) -> None:
    text = "a" * 5_000 + "!"
    schema: dict[str, Any]
    for schema in (
        {"properties": {text: {"pattern": pattern}}},
        {"patternProperties": {pattern: {}}, "additionalProperties": {"type": "null"}},
        {"patternProperties": {pattern: {}}, "additionalProperties": False},
    ):
        check = read_answer_type({"$schema": f"http://json-schema.org/{dialect}/schema#", **schema}).check
        assert check({text: text})


@pytest.mark.parametrize(
    "pattern", [r"(?=a)b", r"(a)\1", r"(?<!x)a", "(" * 1_001, "a{1,1000}" * 50, "a" * 2_001, "\ud800"]
)
def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    schemas: tuple[dict[str, Any], ...] = (
        {"pattern": pattern},
        {"patternProperties": {pattern: {}}},
        {"items": [{"not": {"pattern": pattern}}]},
    )
    for schema in schemas:
        with pytest.raises(UsageError, match=r"answer: the pattern .*(linear time|characters)|not a JSON Schema"):
            read_answer_type({"$schema": "http://json-schema.org/draft-07/schema#", **schema})


@given(st.from_regex(r"[a-z.]{0,3}[+*?]?\|?(\[a-z\]|\(x\)|\\d|\\w)[+*]?", fullmatch=True), st.text("axz1_", max_size=8))
def test_plain_patterns_mean_what_they_mean_elsewhere(pattern: str, text: str) -> None:
    try:
        wanted = re.search(pattern, text, re.ASCII)
    except re.error:
        return
    try:
        found = compile_pattern(pattern).search(text)
    except DataError:  # `a**`
        return
    assert (found is None) == (wanted is None)


def test_escapes_of_javascript_are_known() -> None:
    check = read_answer_type({"pattern": r"^\u00e9\/\d+$"}).check
    assert check("é/12") == ""
    assert check("e/12") == r"the answer: 'e/12' does not match '^\\u00e9\\/\\d+$'"


@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("more", [{}, {"unevaluatedProperties": False}, {"unevaluatedItems": False}])
def test_references_that_branch_at_each_level_end(word: str, more: dict[str, Any]) -> None:
    check = read_answer_type(chain(word, more)).check
    for value in ({}, {"a": 1}, [1], 5):
        assert check(value) not in ("", TOO_LONG)
    assert bool(check("a text")) == (word == "oneOf")  # of two that are the same, both fit
    with_dependents: dict[str, Any] = {
        f"d{at}": {"$ref": f"#/$defs/d{at + 1}", "dependentSchemas": {"a": {"$ref": f"#/$defs/d{at + 1}"}}}
        for at in range(40)
    }
    check = read_answer_type({**more, "$ref": "#/$defs/d0", "$defs": {**with_dependents, "d40": {}}}).check
    assert check({"a": 1}) == (TOO_LONG if "unevaluatedProperties" in more else "")


def test_a_reference_to_itself_ends() -> None:
    check = read_answer_type({"$ref": "#"}).check
    assert check(1) == TOO_LONG


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": list(range(1_900))}}, ["x"] * 100_000),
        ({"anyOf": [{"type": "string"}] * 900}, [["x" * 1_000] * 1_000]),
        ({"multipleOf": 0.1}, 10**400),
        ({"pattern": "^a$"}, "a" * 1_000_000),
        ({"items": {"pattern": r"(\w{1,100})x$"}}, ["x" * 20_000] * 300),
    ],
)  # fmt: skip
def test_a_value_costs_no_more_than_its_size(schema: dict[str, Any], value: Any) -> None:
    check = read_answer_type(schema).check
    assert check(value) == TOO_LONG


def test_a_long_list_of_different_things_has_no_two_alike() -> None:
    check = read_answer_type({"uniqueItems": True}).check
    assert check([[at, {"a": at}] for at in range(20_000)]) == ""
    assert check([True, 1, "1", [1], {"1": 1}, None, 0, False]) == ""
    assert check([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]).endswith("has non-unique elements")


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": list(range(1_000_000))},
        {"required": [[at] for at in range(5_000)]},
        {"description": "x" * 200_000},
        {"properties": {f"p{at}": {"type": "string"} for at in range(5_000)}},
        json.loads('{"not":' * 900 + "{}" + "}" * 900),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^answer: .*too large"):
        read_answer_type(schema)


def test_patterns_beside_unevaluated_properties_are_refused() -> None:
    with pytest.raises(UsageError, match="'unevaluatedProperties' and 'patternProperties' cannot be used together"):
        read_answer_type({"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]})


def test_a_tools_arguments_are_checked_as_well() -> None:
    errors = make_validator({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}})
    assert [one.json_path for one in errors({"a": "a" * 5_000 + "!"})] == ["$.a"]


BRANCHING = {"a": {"type": "object", "properties": {f"p{at}": {"$ref": "#/$defs/a"} for at in range(100)}}}
NESTED: dict[str, Any] = {"type": "string"}
for _ in range(4):
    NESTED = {"type": "object", "properties": {f"p{at}": NESTED for at in range(16)}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": BRANCHING},
        {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(900)}},
        {"enum": ["x" * 1_000] * 900},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
        NESTED,
    ],
)
def test_the_pattern_of_a_schema_is_bounded(schema: dict[str, Any]) -> None:
    pattern = build_json_pattern(schema)
    assert len(print_regex(pattern)) < 2 * MAX_PRINTED
    assert len(print_gbnf(pattern)) < 2 * MAX_PRINTED


def test_many_optional_properties_may_come_in_any_order() -> None:
    pattern = build_json_pattern({"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(20)}})
    for text in ("{}", '{"p3": null}', '{"p19": null, "p0": null}'):
        assert re.fullmatch(print_regex(pattern), text)
    assert not re.fullmatch(print_regex(pattern), '{"p20": null}')


def test_a_dynamic_reference_depends_on_those_before_it() -> None:
    def of(kind: str) -> dict[str, Any]:
        return {"$id": kind, "$ref": "list", "$defs": {"T": {"$dynamicAnchor": "T", "type": kind}}}

    inner = {"inner": {"items": {"$dynamicRef": "#T"}}, "T": {"$dynamicAnchor": "T"}}
    of_any = {"$id": "list", "allOf": [{"$ref": "#/$defs/inner"}], "$defs": inner}
    schema = {
        "$id": "http://localhost/root",
        "anyOf": [{"$ref": "string"}, {"$ref": "integer"}],
        "$defs": {"string": of("string"), "integer": of("integer"), "list": of_any},
    }
    errors = make_validator(schema)
    assert not errors([1])
    assert not errors(["a"])
    assert errors([1, "a"])
