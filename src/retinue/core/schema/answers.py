"""Answers with a type: the JSON Schema that a model is shown, whether a value conforms, and the object it becomes."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from typing_extensions import TypeVar

from ...errors import DataError, UsageError
from .json_schema import Check, TooMuch, check_schema, list_schemas, make_validator

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Answer = TypeVar("Answer", default=str)  # of an agent: text, or the type that it was given
_WANTED = "want a dataclass, a pydantic model, another type that pydantic knows, or a JSON Schema"
_FENCE = re.compile(r"\s*```(?:json)?\s*")
_NUMBER = re.compile(r"[-+.\deE]+\Z")  # which may go on


@dataclass(frozen=True, slots=True)
class AnswerType:
    """What answers are, beside text.

    Args:
        schema: Their JSON Schema.
        check: Says what is wrong with a JSON value.
        read: Returns the object that is written in the text of an answer. Raises `ValueError` for another text.
        read_part: Returns what the beginning of such a text says so far, or `None`: of an object with named fields a
            dict with those that have arrived; of anything else, what of it is whole.
    """

    schema: Mapping[str, Any]
    check: Check
    read: Callable[[str], Any]
    read_part: Callable[[str], Any]


def read_answer_type(kind: Any) -> AnswerType:
    """Return what `kind` says of answers: a type that pydantic knows, or a JSON Schema, whose answers are plain JSON.
    Raises `UsageError` for anything else."""
    if isinstance(kind, Mapping):
        return _read_schema(dict(kind))
    from pydantic import ValidationError

    adapter, schema = _make_adapter(kind)

    def read(text: str) -> Any:
        return adapter.validate_json(text, strict=True)

    def check(value: Any) -> str:
        try:
            read(json.dumps(value))
        except ValidationError as error:
            return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in error.errors()[:3])
        return ""

    @cache  # made when the first answer is streamed
    def make_partial() -> TypeAdapter[Any]:
        fields = _list_fields(kind)
        return adapter if fields is None else _make_partial_adapter(fields)

    def read_part(text: str) -> Any:
        value = _parse_part(text)
        try:
            return make_partial().validate_python(value, experimental_allow_partial="trailing-strings") or None
        except ValidationError:  # of what is whole by now, or this is no part of an answer
            return None

    return AnswerType(schema, check, read, read_part)


def _make_adapter(kind: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    from pydantic import PydanticUserError, TypeAdapter

    try:
        if isinstance(kind, str) or inspect.isroutine(kind):
            raise TypeError("it is no type")
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        return adapter, adapter.json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        why = str(getattr(error, "message", error)).partition("\n")[0]
        raise UsageError(f"answer: {kind!r:.200} has no JSON Schema ({why}); {_WANTED}") from error


def _list_fields(kind: Any) -> dict[str, Any] | None:
    """Return the types of the named fields that JSON has of an object of this type; `None` if they are not known."""
    from pydantic import BaseModel
    from typing_extensions import is_typeddict

    if is_typeddict(kind):
        return get_type_hints(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "root" not in kind.model_fields:
        return {
            str(one.validation_alias or one.alias or name): one.annotation for name, one in kind.model_fields.items()
        }
    return get_type_hints(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def _make_partial_adapter(fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    make: Any = TypedDict  # of fields that are known only now
    part = make("Part", dict(fields), total=False)
    part.__pydantic_config__ = ConfigDict(extra="forbid")
    return TypeAdapter(part)


def _parse_part(text: str) -> Any:
    """Return the JSON that begins in the text of a reply, or `None`."""
    from pydantic_core import from_json

    begun = _NUMBER.sub("", _FENCE.sub("", text, count=1)).lstrip()
    try:
        value = from_json(begun, allow_partial="trailing-strings") if begun[:1] in ("{", "[") else None
    except ValueError:  # more follows the JSON, or it is none
        return None
    return value["answer"] if isinstance(value, dict) and set(value) == {"answer"} else value


def _read_schema(schema: dict[str, Any]) -> AnswerType:
    from jsonschema.exceptions import best_match

    try:
        check_schema(schema)
    except DataError as error:
        raise UsageError(f"answer: {error}") from error
    for one in list_schemas(schema):
        reference = one.get("$ref")
        if isinstance(reference, str) and not _resolves(reference, schema):
            raise UsageError(f"answer: $ref {reference!r} cannot be resolved; want #/$defs/… within the schema")
    errors = make_validator(schema)

    def check(value: Any) -> str:
        try:
            error = best_match(errors(value))
        except TooMuch:
            return "the answer: it takes too long to hold this against the schema; want a smaller one"
        if error is None:
            return ""
        return f"{error.json_path.removeprefix('$').removeprefix('.') or 'the answer'}: {error.message:.300}"

    def read_part(text: str) -> Any:
        value, named = _parse_part(text), schema.get("properties")
        known = not isinstance(value, dict) or not isinstance(named, Mapping) or value.keys() <= named.keys()
        return (value or None) if known else None

    return AnswerType(schema, check, json.loads, read_part)


def _resolves(reference: str, schema: Any) -> bool:
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
