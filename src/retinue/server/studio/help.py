"""HTML pages for a browser: an overview at `/`, and the operations at `/docs`. They are public, so they show nothing of
any tenant, load no external resources, and escape what they show.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response

from ... import __version__

router = APIRouter(include_in_schema=False)
_CODE = re.compile(r"`([^`]*)`")
_METHODS = ("get", "post", "put", "patch", "delete")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_FRAME = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 58rem; margin: 2rem auto; padding: 0 1rem }}
code, pre {{ font: 14px/1.5 ui-monospace, monospace }}
pre {{ padding: .8rem; border: 1px solid #8886; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }}
h2 {{ font-size: 1.1rem; margin: 1.6rem 0 .3rem }}
td {{ padding: .1rem .8rem .1rem 0; vertical-align: top }}
</style>
{body}
"""


@router.get("/")
async def index(request: Request) -> Response:
    """An overview of the server, with an example request."""
    return _page("Retinue", _index(request))


@router.get("/docs")
@router.get("/redoc")
async def operations(request: Request) -> Response:
    """All operations, by path."""
    schema = await asyncio.to_thread(request.app.openapi)
    return _page("Retinue: operations", "\n".join(_operations(schema, _prefix(request))))


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    state, prefix = request.app.state, _prefix(request)
    if not hasattr(state, "openapi"):  # it never changes, and nor does where it is mounted
        servers = {"servers": [{"url": prefix}]} if prefix else {}
        state.openapi = await asyncio.to_thread(lambda: json.dumps({**request.app.openapi(), **servers}).encode())
    return Response(state.openapi, media_type="application/json")


def _prefix(request: Request) -> str:
    """Return where the server is mounted in another application, such as `/ai`."""
    return str(request.scope.get("app_root_path", ""))


def _page(title: str, body: str) -> Response:
    text = _FRAME.format(title=escape(title), body=body)
    return Response(text, media_type="text/html; charset=utf-8", headers=_HEADERS)


def _index(request: Request) -> str:
    address, prefix = str(request.base_url).rstrip("/"), escape(_prefix(request))
    models = list(request.app.state.server.deployment.agents)
    asked = json.dumps(
        {"model": models[0] if models else "AGENT", "messages": [{"role": "user", "content": "Hello"}]},
        ensure_ascii=False,
    )
    curl = (
        f'curl {shlex.quote(address + "/v1/chat/completions")} \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" '
        f'-H "Content-Type: application/json" \\\n  -d {shlex.quote(asked)}'
    )
    listed = "".join(f"<li><code>{escape(name)}</code></li>" for name in models)
    return f"""<h1>Retinue</h1>
<p>Agents behind OpenAI's API, version {escape(__version__)}. Point any client of OpenAI's at this address:</p>
<pre>OPENAI_BASE_URL={escape(address)}/v1</pre>
<h2>Models</h2>
<ul>{listed}</ul>
<h2>Ask one</h2>
<p>The key is one of this server's: from <code>--api-key</code>, or <code>retinue keys make</code>.</p>
<pre>{escape(curl)}</pre>
<h2>More</h2>
<ul>
<li><a href="{prefix}/studio">The studio</a>: runs, and what happened in them</li>
<li><a href="{prefix}/docs">All operations</a>, and as <a href="{prefix}/openapi.json">OpenAPI</a></li>
<li><a href="{prefix}/health">Health</a>, <a href="{prefix}/ready">readiness</a></li>
</ul>"""


def _operations(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    root = escape(prefix)
    yield f'<h1>Operations</h1>\n<p><a href="{root}/">Back</a>. All but <code>/health</code>, <code>/ready</code> and'
    yield f'these pages require a key. For the request schemas, see <a href="{root}/openapi.json">OpenAPI</a>.</p>'
    family = ""
    for path, operations in sorted(schema["paths"].items()):
        words = path.strip("/").split("/")
        if (begin := words[1] if words[0] == "v1" else words[0]) != family:
            yield ("</table>\n" if family else "") + f"<h2>{escape(begin)}</h2>\n<table>"
            family = begin
        for method in _METHODS:
            if method in operations:
                says = _CODE.sub(r"<code>\1</code>", escape(operations[method].get("description", "")))
                yield f"<tr><td><code>{method.upper()}</code><td><code>{escape(path)}</code><td>{says}</tr>"
    yield "</table>"
