"""Schemas of answers: what is wrong is said with its place, and what is no schema is refused at once."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from retinue import UsageError
from retinue.core.schema.answers import read_answer_type


class City(BaseModel):
    name: str
    people: int = 0
    founded: datetime.date | None = None


SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}, "n": {"type": "integer", "minimum": 3}},
    "required": ["city"],
    "$defs": {"city": {"type": "object", "required": ["name"]}},
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": "Bonn"}, ""),
        ({"name": "Bonn", "founded": "0012-01-01"}, ""),
        ({"name": 5}, "name: Input should be a valid string"),
        ({"name": "Bonn", "people": "3"}, "people: Input should be a valid integer"),
        ("Bonn", "the answer: Input should be an object"),
    ],
)
def test_a_pydantic_model_checks_strictly(value: Any, problem: str) -> None:
    city = read_answer_type(City)
    assert city.schema["required"] == ["name"]
    assert city.check(value) == problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"city": {"name": "Bonn"}}, ""),
        ({"city": {}}, "city: 'name' is a required property"),
        ({"city": {"name": "x"}, "n": 1}, "n: 1 is less than the minimum of 3"),
        (5, "the answer: 5 is not of type 'object'"),
    ],
)
def test_a_json_schema_checks(value: Any, problem: str) -> None:
    kept = read_answer_type(SCHEMA)
    assert kept.schema == SCHEMA
    assert kept.check(value) == problem


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"type": "objekt"}, r"not a JSON Schema: \$.type: 'objekt' is not valid"),
        ({"properties": {"a": {"type": 5}}}, r"\$.properties.a.type"),
        ({"$ref": "http://127.0.0.1:1/city"}, "cannot be resolved"),
        ({"$ref": "#/$defs/city"}, "cannot be resolved"),
        ({"type": object}, "not JSON serializable"),
        (3, "has no JSON Schema .*want a dataclass, a pydantic model, another type .* or a JSON Schema"),
        ("City", "has no JSON Schema"),
        (type("Strange", (), {}), "has no JSON Schema"),
    ],
)
def test_what_is_no_schema_is_refused_with_a_reason(wrong: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_answer_type(wrong)


def test_its_libraries_are_loaded_only_when_used() -> None:
    import subprocess
    import sys

    code = "import retinue.core.schema.json_schema, sys; print(sorted({'jsonschema', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
