"""The problems found in a file, also those that pydantic finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .._internal.message_text import find_nearest, suggest_name
from .._internal.source_text import (
    MAX_FOUND,
    Found,
    KeyPath,
    Source,
)
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


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a source, of any shape; no method raises."""

    value: Any
    path: KeyPath = ()

    def at(self, key: str) -> Node:
        """Return the value under `key`; `None` if there is none."""
        return Node(self.value.get(key) if isinstance(self.value, dict) else None, (*self.path, key))

    def __iter__(self) -> Iterator[Node]:
        pairs: Iterable[tuple[Any, Any]] = ()
        if isinstance(self.value, dict):
            pairs = self.value.items()
        elif isinstance(self.value, list):
            pairs = enumerate(self.value)
        return (Node(value, (*self.path, key)) for key, value in pairs)

    def given(self, *keys: str) -> list[str]:
        """Return those of `keys` that have a value."""
        return [key for key in keys if self.at(key).value is not None]

    @property
    def text(self) -> str:
        """The value if it is text, otherwise an empty string."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def name(self) -> str:
        """The text under `name`."""
        return self.at("name").text


def describe_unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return `unknown WHAT 'name'`, with the nearest known name or all known names."""
    return f"unknown {what} {format_value(name)}; {suggest_name(name, known)}"


def find_unknown(node: Node, what: str, known: Collection[str], label: str = "") -> Iterator[Found]:
    """Yield a problem if the text of `node` is not among the `known` names."""
    if node.text and node.text not in known:
        yield Found(node.path, label + describe_unknown(what, node.text, known))


def find_invalid(node: Node, read: Callable[[str], Any]) -> Iterator[Found]:
    """Yield a problem if `read` raises a `ValueError` for the text of `node`."""
    try:
        if node.text:
            read(node.text)
    except ValueError as error:
        yield Found(node.path, f"{node.path[-1]}: {error}")


def format_value(value: Any) -> str:
    """Format a value for a message: short, on one line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**40:
            return "a very long number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1:]}"


def validate(kind: Any, source: Source) -> tuple[Any, list[Found]]:
    """Validate `source.value` as a `kind` (a spec, or a type built from specs). Return the value, and the problems if
    it is invalid."""
    try:
        return TypeAdapter(kind).validate_python(source.value), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)[:MAX_FOUND]
        return None, [_describe_error(detail, kind, source.value) for detail in details]


def _describe_error(detail: ErrorDetails, kind: Any, value: Any) -> Found:
    what, path = detail["type"], list[str | int]()
    for part in detail["loc"]:
        if isinstance(part, int) if isinstance(value, list) else isinstance(value, dict) and part in value:
            value = value[part]
            path.append(part)  # unlike the tags of union members, which are not in the file
    if what == "extra_forbidden":
        return Found(tuple(path), _describe_unknown_key(str(path[-1]), kind, detail["loc"][:-1]), at_key=True)
    if what == "missing":
        return Found(tuple(path), f"needs {str(detail['loc'][-1])!r}")
    label = next((f"{part}: " for part in reversed(path) if isinstance(part, str)), "")
    context, but = detail.get("ctx", {}), f", not {format_value(detail['input'])}"
    if what == "string_pattern_mismatch":
        problem = f"want {_NAME}{but}"
    elif what == "kind":
        problem = f"want {detail['msg']}{but}"
    elif what in _WANTED:
        problem = f"want {_WANTED[what].format(**context)}{'' if what.endswith(('too_short', 'too_long')) else but}"
    else:
        problem = str(context["error"]) if what == "value_error" else detail["msg"]
    return Found(tuple(path), label + problem)


def _describe_unknown_key(name: str, kind: Any, loc: tuple[int | str, ...]) -> str:
    keys = sorted(_list_allowed_keys(kind, loc))
    if "params" in keys and not find_nearest(name, keys):
        deeper = _list_allowed_keys(kind, (*loc, "params")) or {
            key for one in COMPONENTS.values() for key in one.parameters
        }
        if name in deeper:
            return f"unknown key {format_value(name)} here; it belongs under 'params'"
    return describe_unknown("key", name, keys)


def _list_allowed_keys(kind: Any, loc: tuple[int | str, ...]) -> set[str]:
    """Return the keys allowed for a spec at `loc` in a `kind`."""
    shapes = list(_list_shapes(kind))
    for part in (one for one in loc if not str(one).startswith("<")):
        inner = [
            one.model_fields[part].annotation if _is_spec(one) else get_args(one)[-1]
            for one in shapes
            if not _is_spec(one) or part in one.model_fields
        ]
        shapes = [shape for one in inner for shape in _list_shapes(one)]
    return {known.alias or key for one in shapes if _is_spec(one) for key, known in one.model_fields.items()}


def _list_shapes(kind: Any) -> Iterator[Any]:
    """Yield the specs, lists and mappings among the members of a union."""
    if _is_spec(kind) or get_origin(kind) in (list, dict):
        yield kind
    else:
        for member in get_args(kind):
            yield from _list_shapes(member)


def _is_spec(kind: Any) -> bool:
    return isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel)
