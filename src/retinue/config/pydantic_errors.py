"""Converts pydantic's validation errors to problems with positions in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .._internal.message_text import nearest
from .places import MAX_FOUND, Found, Path, Source, shown, unknown
from .registry import COMPONENTS

_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "literal_error": "{expected}",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_short": "a text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "too_short": "a list that is not empty",
    "too_long": "a list of at most {max_length}",
}
_NAME = "only letters (a-z, A-Z), digits (0-9) and underscores (_), at most 64 of them"


def validate(kind: Any, source: Source) -> tuple[Any, list[Found]]:
    """Validate `source.value` as a `kind` (a spec, or a type built from specs). Return the value, and the problems if
    it is invalid."""
    try:
        return TypeAdapter(kind).validate_python(source.value), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)[:MAX_FOUND]
        return None, [_found(detail, kind, source.value) for detail in details]


def _found(detail: ErrorDetails, kind: Any, value: Any) -> Found:
    path, what = _in_file(detail["loc"], value), detail["type"]
    if what == "extra_forbidden":
        return Found(path, _unknown_key(str(path[-1]), kind, detail["loc"][:-1]), at_key=True)
    if what == "missing":
        return Found(path, f"needs {str(detail['loc'][-1])!r}")
    label = next((f"{part}: " for part in reversed(path) if isinstance(part, str)), "")
    if what == "string_pattern_mismatch":
        return Found(path, f"{label}want {_NAME}, not {shown(detail['input'])}")
    context = detail.get("ctx", {})
    wanted = detail["msg"] if what == "kind" else _WANTED.get(what, "").format(**context)
    if not wanted:
        return Found(path, f"{label}{detail['msg']}")
    but = "" if what.endswith(("too_short", "too_long")) else f", not {shown(detail['input'])}"
    return Found(path, f"{label}want {wanted}{but}")


def _unknown_key(name: str, kind: Any, loc: tuple[int | str, ...]) -> str:
    keys = sorted(_keys(kind, loc))
    if "params" in keys and not nearest(name, keys):
        deeper = _keys(kind, (*loc, "params")) or {key for one in COMPONENTS.values() for key in one.parameters}
        if name in deeper:
            return f"unknown key {shown(name)} here; it belongs under 'params'"
    return unknown("key", name, keys)


def _in_file(loc: tuple[int | str, ...], value: Any) -> Path:
    """Return the part of pydantic's location that is in the file, without the tags of union members."""
    path: list[int | str] = []
    for part in loc:
        inside = isinstance(value, dict) and part in value
        if not inside and not (isinstance(value, list) and isinstance(part, int)):
            continue
        value = value[part]
        path.append(part)
    return tuple(path)


def _keys(kind: Any, loc: tuple[int | str, ...]) -> set[str]:
    """Return the keys allowed for a spec at `loc` in a `kind`."""
    kinds = list(_members(kind))
    for part in loc:
        if isinstance(part, str) and part.startswith("<"):
            continue
        kinds = [inner for one in kinds for inner in _inside(one, part)]
    return {known.alias or key for one in kinds if _is_spec(one) for key, known in one.model_fields.items()}


def _inside(kind: Any, part: int | str) -> Iterator[Any]:
    if _is_spec(kind):
        if part in kind.model_fields:
            yield from _members(kind.model_fields[str(part)].annotation)
    elif get_origin(kind) in (list, dict):
        yield from _members(get_args(kind)[-1])


def _members(kind: Any) -> Iterator[Any]:
    """Yield the members of a union."""
    if _is_spec(kind) or get_origin(kind) in (list, dict):
        yield kind
    else:
        for member in get_args(kind):
            yield from _members(member)


def _is_spec(kind: Any) -> bool:
    return isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel)
