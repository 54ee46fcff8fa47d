"""The reference of the HTTP API, out of the server's OpenAPI document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi.openapi.utils import get_openapi

from retinue import __version__
from retinue.server.app import routes
from retinue.server.http.authentication import is_open, required_scope

from .schema_tables import properties_table

_INTRO = """\
# The HTTP API

Every operation of `retinue serve`, the scope that a key needs for it, and the fields of its requests. A server shows
the same at `/docs`, and as an OpenAPI document at `/openapi.json`. For how these work together, see
[the server](../server.md); for keys and scopes, [keys, tenants and limits](../keys.md).
"""
_REQUEST = "#/components/schemas/"


def http_page() -> str:
    """The page of all operations, by family of resources, and of the schemas of their requests."""
    document = get_openapi(title="Retinue", version=__version__, routes=routes())
    return _INTRO + "".join(_families(document["paths"])) + "".join(_schemas(document))


def _families(paths: Mapping[str, Any]) -> Iterator[str]:
    families: dict[str, list[str]] = defaultdict(list)
    for path, operations in paths.items():
        for method, operation in operations.items():
            families[_family(path)].append(_row(method.upper(), path, operation))
    for name, rows in sorted(families.items()):
        yield f'\n## {name}\n\n<div class="operations" markdown>\n\n'
        yield "| operation | scope | request | |\n|---|---|---|---|\n"
        yield from rows
        yield "\n</div>\n"


def _family(path: str) -> str:
    parts = path.removeprefix("/v1").strip("/").split("/")
    known = {"chat": "Chat completions", "health": "Health", "ready": "Health", "health_check": "Health"}
    if "runs" in parts:
        return "Runs"
    return known.get(parts[0], parts[0].replace("_", " ").capitalize())


def _row(method: str, path: str, operation: Mapping[str, Any]) -> str:
    scope = "" if is_open(method, path) else f"`{required_scope(method, path)}`"
    says = " ".join(operation.get("description", operation["summary"]).split()).replace("|", "\\|")
    body = _body(operation)
    request = f"[`{_title(body)}`](#{body.lower()})" if body else ""
    return f"| `{method} {path}` | {scope} | {request} | {says} |\n"


def _body(operation: Mapping[str, Any]) -> str | None:
    content = operation.get("requestBody", {}).get("content", {})
    for kind in content.values():
        if (named := kind["schema"].get("$ref", "")).startswith(_REQUEST):
            return str(named.removeprefix(_REQUEST))
    return None


def _title(body: str) -> str:
    """A schema's name; FastAPI calls that of a form after its function."""
    return "multipart form" if body.startswith("Body_") else body


def _schemas(document: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Requests\n"
    operations = [one for path in document["paths"].values() for one in path.values()]
    schemas = document["components"]["schemas"]
    for name in sorted({body for one in operations if (body := _body(one))}):
        yield f"\n### `{_title(name)}` {{ #{name.lower()} }}\n\n"
        yield properties_table(schemas[name])
