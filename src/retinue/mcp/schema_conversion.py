"""Converts a server's JSON Schema to a small one without references, fit for models, grammars and validation.

A foreign schema may be deep, circular or built to explode, and its regular expressions can block the process. Only the
keywords that strategies know are kept. The server checks the rest, and the model reads its complaint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any
from urllib.parse import unquote

from ..errors import DataError

MAX_NODES = 400  # in the converted schema
MAX_DEPTH = 8
MAX_CHARS = 60_000
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = {"minLength": 1_000, "maxLength": 1_000_000, "minItems": 16, "maxItems": 1_000}
_NAME = re.compile(r"[\w$@:. -]{1,64}")


def convert_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a tool as a converted schema. Raises `DataError` if they are invalid or too large."""
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
        raise DataError("its arguments are not an object with properties")
    made = _Plain(schema).of(schema, MAX_DEPTH)
    required = schema.get("required", ())
    if missing := [name for name in required if name not in made.get("properties", {})]:
        raise DataError(f"it requires an argument that it does not describe: {missing[0]!r:.80}")
    made = {"type": "object", "properties": {}} | made
    if len(json.dumps(made)) > MAX_CHARS:
        raise DataError(f"the description of its arguments exceeds {MAX_CHARS:,} characters")
    return made


class _Plain:
    """Converts one schema; references are resolved in `root`."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_NODES

    def of(self, schema: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth == 0 or self._left < 0:
            return {}
        if parts := self._parts(schema):
            own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
            return reduce(_merge, [*(self.of(part, depth - 1) for part in parts), self.of(own, depth)])
        made = self._said(schema) | dict(self._sizes(schema))
        for choice in ("anyOf", "oneOf"):
            if isinstance(schema.get(choice), list) and schema[choice]:
                made["anyOf"] = [self.of(one, depth - 1) for one in schema[choice][:16]]
        if isinstance(schema.get("items"), Mapping):
            made["items"] = self.of(schema["items"], depth - 1)
        if isinstance(schema.get("properties"), Mapping):
            made |= self._object(schema, depth)
        return made

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema["properties"]
        if wrong := [name for name in properties if not _NAME.fullmatch(name)]:
            raise DataError(f"an argument cannot be called {wrong[0][:40]!r}")
        made: dict[str, Any] = {"properties": {name: self.of(one, depth - 1) for name, one in properties.items()}}
        required = schema.get("required")
        if isinstance(required, list) and required and all(isinstance(name, str) for name in required):
            made["required"] = list(dict.fromkeys(required))
        if schema.get("additionalProperties") is False:
            made["additionalProperties"] = False
        return made

    def _parts(self, schema: Mapping[str, Any]) -> list[Any]:
        """Return the other schemas that must fit as well: one that is referred to, and all of `allOf`."""
        referred = [self._referred(schema["$ref"])] if "$ref" in schema else []
        return [*referred, *schema["allOf"][:16]] if isinstance(schema.get("allOf"), list) else referred

    def _referred(self, reference: Any) -> Any:
        """Return what a reference such as `#/$defs/city` points to; `None` for other references."""
        begin, *path = unquote(str(reference)).split("/")
        found: Any = self._root if begin == "#" else None
        for key in (part.replace("~1", "/").replace("~0", "~") for part in path):
            if isinstance(found, list):
                found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def _said(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        kinds = schema.get("type")
        if kinds in _TYPES or (isinstance(kinds, list) and kinds and all(kind in _TYPES for kind in kinds)):
            made["type"] = kinds
        if isinstance(text := schema.get("description"), str) and text.strip():
            made["description"] = " ".join(text.split())[:1_000]
        if isinstance(values := schema.get("enum"), list) and 0 < len(values) <= 200:
            made["enum"] = values
        return made | {key: schema[key] for key in ("const", "default") if key in schema}

    def _sizes(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for key in _BOUNDS:
            if isinstance(value := schema.get(key), int | float) and not isinstance(value, bool):
                yield key, value
        for key, most in _SIZES.items():
            if isinstance(value := schema.get(key), int) and not isinstance(value, bool) and 0 <= value <= most:
                yield key, value


def _merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a converted schema for what fits both. What cannot be expressed is as in `other`."""
    made = one | other
    for key in one.keys() & other.keys():
        match key:
            case "properties":
                both = {name: _merge(one[key].get(name, {}), schema) for name, schema in other[key].items()}
                made[key] = one[key] | both
            case "items":
                made[key] = _merge(one[key], other[key])
            case "required":
                made[key] = list(dict.fromkeys([*one[key], *other[key]]))
            case "enum":
                made[key] = [value for value in other[key] if value in one[key]] or other[key]
            case "minimum" | "exclusiveMinimum" | "minLength" | "minItems":
                made[key] = max(one[key], other[key])
            case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems":
                made[key] = min(one[key], other[key])
    return made
