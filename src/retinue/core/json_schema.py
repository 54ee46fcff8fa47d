"""JSON Schema with bounded cost: schemas are limited in size, and checking a value costs at most a multiple of its
size.

Schemas may come from strangers and are checked on the event loop. So patterns are matched in linear time by RE2, and
every keyword evaluation is counted: references that branch at each level, or a million values compared with each
other, end in `TooMuch`. They always end at the same point, so that replay is deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .schema_keywords import TooMuch, at_most, compiled, counted, size_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_NODES = 2_000  # values in a schema
MAX_CHARS = 120_000  # characters of a schema, as JSON
_BASE, _EACH = 5_000, 100  # cost limit of a check: a base, plus an amount for each value that is checked,
_MOST = 500_000  # up to this maximum
_MERGED = ("properties", "$defs")
_RECURSIVE, _ITSELF = '"$recursiveRef": "#"', '"$ref": "#"'
_DYNAMIC = ('"$dynamicRef"', '"$recursiveRef"')
_LITERAL = ("const", "enum", "default", "examples")  # their contents are not schemas

Errors = Callable[[Any], "list[ValidationError]"]


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise `DataError` unless `schema` is a JSON Schema of at most 2,000 values with patterns that match in linear
    time.

    Look-around and back-references do not.
    """
    from jsonschema.exceptions import best_match

    _bounded(schema)
    kind = _kind_of(schema)
    try:
        with at_most(1_000 * MAX_NODES):
            error = best_match(counted(kind)(_flat(kind)).iter_errors(schema))
    except (TooMuch, RecursionError) as too_much:
        raise DataError("cannot check this JSON Schema: it is too large") from too_much
    if error is not None:
        raise DataError(f"not a JSON Schema: {error.json_path}: {error.message:.300}")
    for pattern in _patterns(schema):
        compiled(pattern)


def errors_of(schema: Mapping[str, Any]) -> Errors:
    """Return a function that yields why a value does not fit a checked `schema`. The function raises `TooMuch`."""
    from referencing import Registry

    validator = counted(_kind_of(schema))(schema, registry=Registry())  # an empty registry fetches nothing
    text = json.dumps(schema)
    dynamic = any(keyword in text for keyword in _DYNAMIC)

    def errors(value: Any) -> list[ValidationError]:
        try:
            with at_most(min(_BASE + _EACH * size_of(value), _MOST), dynamic=dynamic):
                return list(validator.iter_errors(value))
        except (RecursionError, ArithmeticError) as error:
            raise TooMuch from error

    return errors


@cache
def _flat(kind: Any) -> dict[str, Any]:
    """Return a dialect's metaschema as a single schema.

    Dialects from 2019 on split it into seven vocabularies, each of which would visit every part of a schema.
    """
    from jsonschema_specifications import REGISTRY

    meta: dict[str, Any] = kind.META_SCHEMA
    if "allOf" not in meta:
        return meta
    resolver = REGISTRY.resolver(meta["$id"])
    parts = [resolver.lookup(one["$ref"]).contents for one in meta["allOf"]] + [meta]
    merged = {name: {key: value for part in parts for key, value in part.get(name, {}).items()} for name in _MERGED}
    text = json.dumps({"$schema": meta["$schema"], "type": meta["type"], **merged})
    flat: dict[str, Any] = json.loads(text.replace('"$dynamicRef": "#meta"', _ITSELF).replace(_RECURSIVE, _ITSELF))
    return flat


def _kind_of(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    named = schema if isinstance(schema.get("$schema"), str) else {}
    return validator_for(named, default=Draft202012Validator)


def _bounded(schema: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(schema)
        size = size_of(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"not a JSON Schema: $: {error}") from error
    if len(text) > MAX_CHARS or size > MAX_NODES + len(text) // 100:
        raise DataError(f"it is too large: want at most {MAX_NODES:,} values, and {MAX_CHARS:,} characters")
    if '"unevaluatedProperties"' in text and '"patternProperties"' in text:
        raise DataError("'unevaluatedProperties' and 'patternProperties' cannot be used together")


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if isinstance(schema.get("patternProperties"), Mapping):
            yield from schema["patternProperties"]
    if isinstance(schema, Mapping | list):
        inner = (
            [value for key, value in schema.items() if key not in _LITERAL] if isinstance(schema, Mapping) else schema
        )
        for one in inner:
            yield from _patterns(one)
