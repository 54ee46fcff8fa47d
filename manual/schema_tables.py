"""JSON Schemas as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def properties_table(schema: Schema) -> str:
    """A schema's description, and a table of its properties."""
    says = " ".join(schema.get("description", "").split())
    properties = schema.get("properties", {})
    if not properties:
        return f"{says}\n" if says else "Any JSON object.\n"
    rows = [_row(name, one, name in schema.get("required", ())) for name, one in properties.items()]
    return f"{says}\n\n| field | type | default |\n|---|---|---|\n" + "".join(rows)


def _row(name: str, schema: Schema, required: bool) -> str:
    default = "**required**" if required else ""
    if schema.get("default") is not None:
        default = f"`{json.dumps(schema['default'], ensure_ascii=False)}`"
    says = " ".join(schema.get("description", "").split())
    return f"| `{name}` | {type_of(schema)}{': ' + _cell(says) if says else ''} | {default} |\n"


def type_of(schema: Schema) -> str:
    """What a schema admits, in a few words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        kinds = dict.fromkeys(type_of(one) for one in choices if one.get("type") != "null")
        return " or ".join(kinds)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return _cell(", ".join(f"`{one}`" for one in schema["enum"]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if "maxLength" in schema else ""
    if low is not None and high is not None:
        return f", {low:,} to {high:,}{unit}"
    if high is not None:
        return f", at most {high:,}{unit}"
    return f", at least {low:,}" if low is not None and unit == "" and "minimum" in schema else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
