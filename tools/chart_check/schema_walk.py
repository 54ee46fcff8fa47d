"""The names of values, as the chart's schema knows them, and misspellings of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]  # of names; `[]` stands for the first one of a list


def names(schema: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the path of each value that has a name of its own, also within lists; not the keys of maps."""
    yield from _within(schema, schema, ())


def _within(schema: Mapping[str, Any], root: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name)
        yield from _within(inner, root, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from _within(schema["items"], root, (*path, "[]"))


def objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the schema of each object, wherever it is."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            yield from objects(inner)


def misspellings(name: str) -> list[str]:
    """Return what people may write instead: a letter too few, too many, in the other case, two letters swapped."""
    at = random.Random(name).randrange(len(name) - 1)  # always the same
    wrong = [
        name[:at] + name[at + 1 :],
        name[: at + 1] + name[at:],
        name[:at] + name[at].swapcase() + name[at + 1 :],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        name + "s",
    ]
    return [one for one in dict.fromkeys(wrong) if one != name]


def value_at(path: Path, value: Any) -> Any:
    """Return values that have only `value`, at `path`."""
    for name in reversed(path):
        value = [value] if name == "[]" else {name: value}
    return value
