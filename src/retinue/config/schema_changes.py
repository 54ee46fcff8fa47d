"""How the JSON Schema of a tool's input changed, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = ("title", "description", "examples")
_BY_NAME = ("properties", "$defs", "patternProperties")


def without_words(schema: Any) -> Any:
    """Return a schema without what only describes values."""
    if isinstance(schema, list):
        return [without_words(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _inner(key, one) for key, one in schema.items() if key not in _WORDS}


def _inner(key: str, value: Any) -> Any:
    if key in _BY_NAME and isinstance(value, Mapping):  # names of arguments, which may be called `title`
        return {name: without_words(one) for name, one in value.items()}
    return value if key in ("default", "const", "enum") else without_words(value)


def schema_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what changed between two schemas of type `object`, by the names of their properties."""
    return ", ".join(_changes(before, after)) or "its schema"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before.get("properties", {}), after.get("properties", {})
    yield from (f"`{name}` is gone" for name in old if name not in new)
    yield from (f"`{name}` is new" for name in new if name not in old)
    yield from (f"`{name}` is another" for name in old if name in new and old[name] != new[name])
    required, demanded = set(before.get("required", ())), set(after.get("required", ()))
    yield from (f"`{name}` is required" for name in sorted(demanded - required) if name in old)
    yield from (f"`{name}` may be left out" for name in sorted(required - demanded) if name in new)
