"""Converts a server's JSON Schema to a small one without references, fit for models, grammars and validation.

A foreign schema may be deep, circular or built to explode, and its regular expressions can block the process. Only the
keywords that strategies know are kept. The server checks the rest, and the model reads its complaint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any
from urllib.parse import unquote

from ..errors import DataError

MAX_NODES = 400  # in the converted schema
MAX_DEPTH = 8
MAX_CHARS = 60_000
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_BOUNDS = dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
_SIZES = {"minLength": 1_000, "maxLength": 1_000_000, "minItems": 16, "maxItems": 1_000}
_MAX_NAME = 256  # characters of an argument's name


def convert_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a tool as a converted schema. Raises `DataError` if they are invalid or too large."""
    kinds = schema.get("type") or "object"
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise DataError(f"its arguments are not an object, but of the type {kinds!r:.80}")
    if not isinstance(schema.get("properties") or {}, Mapping):
        raise DataError("the 'properties' of its arguments are not an object")
    made = {"properties": {}} | _Converter(schema).convert_schema(schema, MAX_DEPTH) | {"type": "object"}
    if len(json.dumps(made)) > MAX_CHARS:
        raise DataError(f"the description of its arguments exceeds {MAX_CHARS:,} characters")
    return made


class _Converter:
    """Converts one schema; references are resolved in `root`."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_NODES

    def convert_schema(self, schema: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth == 0 or self._left < 0:
            return {}
        others = [self._resolve(schema["$ref"])] if "$ref" in schema else []
        others += schema["allOf"][:16] if isinstance(schema.get("allOf"), list) else []
        if others:  # which must fit as well
            own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
            parts = [self.convert_schema(other, depth - 1) for other in others]
            return reduce(_merge_schemas, [*parts, self.convert_schema(own, depth)])
        made = dict(_convert_keywords(schema))
        for key in ("anyOf", "oneOf", "items", "prefixItems", "additionalProperties"):
            part, to = schema.get(key), "anyOf" if key == "oneOf" else key
            if isinstance(part, Mapping) and key in ("items", "additionalProperties"):
                made[to] = self.convert_schema(part, depth - 1)
            elif isinstance(part, list) and (key == "prefixItems" or (to == "anyOf" and part)):
                made[to] = [self.convert_schema(one, depth - 1) for one in part[:16]]
        if isinstance(schema.get("properties"), Mapping) or schema.get("required"):
            made |= self._convert_object(schema, depth)
        return made

    def _convert_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        described: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        names = dict.fromkeys([*described, *needed])  # a required argument that is not described takes any value
        if wrong := [name for name in names if not (name.isprintable() and 0 < len(name) <= _MAX_NAME)]:
            raise DataError(f"an argument cannot be called {wrong[0][:40]!r}")
        made: dict[str, Any] = {
            "properties": {name: self.convert_schema(described.get(name), depth - 1) for name in names}
        }
        if needed:
            made["required"] = list(dict.fromkeys(needed))
        if schema.get("additionalProperties") is False:
            made["additionalProperties"] = False
        return made

    def _resolve(self, reference: Any) -> Any:
        """Return what a reference such as `#/$defs/city` points to; `None` for other references."""
        begin, *path = unquote(str(reference)).split("/")
        found: Any = self._root if begin == "#" else None
        for key in (part.replace("~1", "/").replace("~0", "~") for part in path):
            if isinstance(found, list):
                found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found


def _convert_keywords(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kinds = schema.get("type")
    if kinds in _TYPES or (isinstance(kinds, list) and kinds and all(kind in _TYPES for kind in kinds)):
        yield "type", kinds
    if isinstance(text := schema.get("description"), str) and text.strip():
        yield "description", " ".join(text.split())[:1_000]
    if isinstance(values := schema.get("enum"), list) and 0 < len(values) <= 200:
        yield "enum", values
    yield from ((key, schema[key]) for key in ("const", "default") if key in schema)
    for key, most in (_BOUNDS | _SIZES).items():
        value = schema.get(key)
        fits = most is None or (isinstance(value, int) and 0 <= value <= most)
        if isinstance(value, int | float) and not isinstance(value, bool) and fits:
            yield key, value


def _merge_schemas(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a converted schema for what fits both. What cannot be expressed is as in `other`."""
    made = one | other
    for key in one.keys() & other.keys():
        match key:
            case "properties":
                both = {name: _merge_schemas(one[key].get(name, {}), schema) for name, schema in other[key].items()}
                made[key] = one[key] | both
            case "items":
                made[key] = _merge_schemas(one[key], other[key])
            case "required":
                made[key] = list(dict.fromkeys([*one[key], *other[key]]))
            case "enum":
                made[key] = [value for value in other[key] if value in one[key]] or other[key]
            case "minimum" | "exclusiveMinimum" | "minLength" | "minItems":
                made[key] = max(one[key], other[key])
            case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems":
                made[key] = min(one[key], other[key])
    return made
