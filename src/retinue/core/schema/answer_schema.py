"""Structured answers: their JSON Schema, and a check that explains why a value does not conform."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, get_origin

from ...errors import DataError, UsageError
from .json_schema import TooMuch, check_schema, make_validator

Check = Callable[[Any], str]
"""Returns what is wrong with a JSON value and where, or `None` if it conforms."""


def read_answer_schema(answer_schema: type | Mapping[str, Any]) -> tuple[dict[str, Any], Check]:
    """Return the JSON Schema of a type that pydantic knows, or the schema passed in, together with its check.

    Raises `UsageError` for anything else.
    """
    if isinstance(answer_schema, Mapping):
        return _read_schema(dict(answer_schema))
    return _read_type(answer_schema)


def _read_type(kind: type) -> tuple[dict[str, Any], Check]:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    wanted = "want a pydantic model or a JSON Schema"
    if not isinstance(kind, type) and get_origin(kind) is None:
        raise UsageError(f"answer_schema: {kind!r} is not a type; {wanted}")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        why = error.message.partition("\n")[0]
        raise UsageError(f"answer_schema: {kind!r} has no JSON Schema ({why}); {wanted}") from error

    def check(value: Any) -> str:
        try:
            adapter.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in error.errors()[:3]]
            return "; ".join(problems)
        return ""

    return schema, check


def _check(schema: dict[str, Any]) -> None:
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        check_schema(schema)  # raises for values that are not JSON
    else:
        _check_text(text)


@lru_cache(maxsize=64)
def _check_text(schema: str) -> None:
    """Check the serialized schema. Cached: clients resend the same schema, and a large one takes 0.2 s to check."""
    check_schema(json.loads(schema))


def _read_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], Check]:
    from jsonschema.exceptions import best_match

    try:
        _check(schema)
    except DataError as error:
        raise UsageError(f"answer_schema: {error}") from error
    for reference in _find_references(schema):
        if not _is_there(reference, schema):
            raise UsageError(f"answer_schema: $ref {reference!r} cannot be resolved; want #/$defs/… within the schema")

    errors = make_validator(schema)

    def check(value: Any) -> str:
        try:
            error = best_match(errors(value))
        except TooMuch:
            return "the answer: it takes too long to hold this against the schema; want a smaller one"
        if error is None:
            return ""
        return f"{error.json_path.removeprefix('$').removeprefix('.') or 'the answer'}: {error.message:.300}"

    return schema, check


def _find_references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for inner in schema.values():
            yield from _find_references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _find_references(inner)


def _is_there(reference: str, schema: Any) -> bool:
    """Return whether a reference such as `#/$defs/city` resolves within the schema."""
    begin, *path = reference.split("/")
    for key in (part.replace("~1", "/").replace("~0", "~") for part in path):
        if isinstance(schema, list) and key.isdigit() and int(key) < len(schema):
            schema = schema[int(key)]
        elif isinstance(schema, Mapping) and key in schema:
            schema = schema[key]
        else:
            return False
    return begin == "#"
