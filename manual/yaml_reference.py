"""The reference of files of agents, out of their JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable

from retinue.config import build_json_schema
from retinue.config.registry import COMPONENTS
from retinue.strategies import STRATEGIES

from .schema_tables import properties_table

_INTRO = """\
# Keys of files

Every key that a file of agents may have, as `retinue schema` prints them. To write such a file, start with
[files of agents](../yaml.md).
"""


def yaml_page() -> str:
    """The page of all keys."""
    schema = build_json_schema()
    parts = [_INTRO, "\n## The file\n\n", properties_table({**schema, "description": ""})]
    for name, spec in schema["$defs"].items():
        parts += [f"\n## `{name}` {{ #{name.lower()} }}\n\n", properties_table(spec)]
    parts += ["\n## Types of components\n\n", _named(COMPONENTS), "\n## Strategies\n\n", _named(STRATEGIES)]
    return "".join(parts)


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "\n"
