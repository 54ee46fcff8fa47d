"""Requests made from an OpenAPI document: which operations there are, where ids stand in them, and bodies that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from retinue.server.app import create_app

Schema = Mapping[str, Any]
Place = tuple[str, ...]  # of a value in a body; `[]` is an item of a list
_TEXTS = {
    "model": "agent-1",
    "agent": "agent-1",
    "role": "user",
    "content": "Hi",
    "input": "Hi",
    "purpose": "assistants",
}
_METHODS = ("get", "post", "put", "patch", "delete")


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of the server."""
    server: Any = SimpleNamespace(limits=None, runs=SimpleNamespace(room=None, quotas=None))
    keys: Any = None
    return create_app(server, keys).openapi()


class Operation(NamedTuple):
    """An operation: `parameters` by where they stand ("path", "query", "header"), and the schema of its body."""

    method: str
    path: str
    parameters: Mapping[str, tuple[str, ...]]
    content_type: str
    body: Schema | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def operations(document: Schema) -> list[Operation]:
    """All operations of a document."""
    return [
        _operation(path, method, item[method])
        for path, item in document["paths"].items()
        for method in _METHODS
        if method in item
    ]


def _operation(path: str, method: str, given: Schema) -> Operation:
    named: dict[str, tuple[str, ...]] = {"path": (), "query": (), "header": ()}
    for one in given.get("parameters", ()):
        named[one["in"]] = (*named.get(one["in"], ()), one["name"])
    body = given.get("requestBody", {})
    kind, content = next(iter(body.get("content", {}).items()), ("", dict[str, Any]()))
    return Operation(method.upper(), path, named, kind, content.get("schema"))


def places(document: Schema, schema: Schema, seen: tuple[str, ...] = ()) -> Iterator[Place]:
    """Where in an instance of `schema` a property may stand. What is in itself is looked into once."""
    if name := schema.get("$ref"):
        if name not in seen:
            yield from places(document, _named(document, name), (*seen, name))
        return
    for branch in _branches(schema):
        yield from places(document, branch, seen)
    for name, inner in schema.get("properties", {}).items():
        yield (name,)
        yield from ((name, *place) for place in places(document, inner, seen))
    if "items" in schema:
        yield from (("[]", *place) for place in places(document, schema["items"], seen))


def example(document: Schema, schema: Schema, at: Place = (), value: Any = None, name: str = "") -> Any:
    """A small instance of `schema`, in which `value` stands at the place `at` if that is given."""
    if "$ref" in schema:
        return example(document, _named(document, schema["$ref"]), at, value, name)
    if branches := _branches(schema):
        return example(document, _fitting(document, branches, at, value), at, value, name)
    if not at and value is not None:
        return [value] if schema.get("type") == "array" else value
    match schema:
        case {"const": one} | {"enum": [one, *_]}:
            return one
        case {"type": "array"}:
            item = schema.get("items", {})
            wanted = at[:1] == ("[]",) or schema.get("minItems", 0)
            return [example(document, item, at[1:], value)] if wanted else []
        case {"type": "object"} | {"properties": _}:
            return _object(document, schema, at, value)
    return _simple(schema, name)


def _object(document: Schema, schema: Schema, at: Place, value: Any) -> dict[str, Any]:
    known = schema.get("properties", {})
    made = {
        one: example(document, known[one], name=one) for one in (*schema.get("required", ()), "model") if one in known
    }
    if at:
        made[at[0]] = example(document, known[at[0]], at[1:], value, at[0])
    return made


def _simple(schema: Schema, name: str) -> Any:
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
    return _TEXTS.get(name, "text")


def _fitting(document: Schema, branches: list[Schema], at: Place, value: Any) -> Schema:
    """The branch in which a value can stand there; a text rather than something larger."""
    real = [one for one in branches if one.get("type") != "null"] or branches
    if at:
        return next(one for one in real if at in set(places(document, one)))
    if value is not None:
        plain = [one for one in real if one.get("type") in ("string", "array")]
        return (plain or real)[0]
    return real[0]


def _branches(schema: Schema) -> list[Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]


def _named(document: Schema, reference: str) -> Schema:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found  # type: ignore[no-any-return]
