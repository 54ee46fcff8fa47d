"""What one tenant sends holds nobody up, whatever it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving, answering


def asking(content: str = "Hi", **more: Any) -> dict[str, Any]:
    return {"model": "agent-1", "messages": [{"role": "user", "content": content}], **more}


def format_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


BACKTRACKING = "^(a+)+$"
BRANCHING = {
    **{f"d{at}": {"properties": {f"p{of}": {"$ref": f"#/$defs/d{at + 1}"} for of in range(40)}} for at in range(9)},
    "d9": {},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": BACKTRACKING},
        {"type": "object", "patternProperties": {BACKTRACKING: {"type": "integer"}}, "additionalProperties": False},
        {"type": "object", "$ref": "#/$defs/d0", "$defs": BRANCHING, "required": ["p0"]},
    ],
)
def test_a_schema_that_would_take_for_ever_ends_its_own_run_only(tmp_path: Path, schema: dict[str, Any]) -> None:
    long = "a" * 60 + "!"
    answer = json.dumps(long if schema["type"] == "string" else {long: 1})
    with Serving(tmp_path, {"agent-1": answering("agent-1", *[answer] * 5)}) as served:
        said = served.ask("POST", "/v1/chat/completions", asking(response_format=format_of(schema)))
        assert said.status != 200
        assert said.error["message"]
        assert served.ask("POST", "/v1/chat/completions", asking()).status == 200


def test_a_pattern_that_cannot_be_matched_in_linear_time_is_told(served: Serving) -> None:
    given = asking(response_format=format_of({"type": "string", "pattern": "(?=a)b"}))
    said = served.ask("POST", "/v1/chat/completions", given)
    assert said.status == 400
    assert "the pattern '(?=a)b' cannot be matched in linear time" in said.error["message"]
