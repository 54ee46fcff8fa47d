"""The studio's page and its files at `/studio`. They are public, for they hold nothing of any tenant: the page reads
the API with its user's key.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from functools import cache, lru_cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from ..http.api_errors import ApiError

ROOT = "/studio"
_FOLDER = Path(__file__).parents[2] / "studio" / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".LICENSE": "text/plain"}
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_FOREVER = "public, max-age=31536000, immutable"  # the address of a file changes with the files
router = APIRouter(include_in_schema=False)


class StaticFile(NamedTuple):
    """A file as it is sent."""

    media_type: str
    content: bytes
    compressed: bytes


class Site(NamedTuple):
    """The text of the page, the studio's files by name, and the hash of all of them."""

    page: str
    files: Mapping[str, StaticFile]
    hash: str


@router.get(ROOT)
@router.get(ROOT + "/{path:path}")
async def studio(request: Request, path: str = "") -> Response:
    """The page, at the address of each of its views; or one of its files."""
    made = site()
    if path.partition("/")[0] != "static":
        page = page_at(request.scope.get("app_root_path", ""), own_login=request.app.state.own_login)
        return _sent(request, page, "no-cache", made.hash)
    _, version, name = f"{path}//".split("/", 2)
    found = made.files.get(name.rstrip("/"))
    if found is None or version != made.hash:
        raise ApiError(404, f"Invalid URL (GET {request.url.path})", code="unknown_url")
    return _sent(request, found, _FOREVER, made.hash)


@cache
def site() -> Site:
    """Return what is served. It is read and compressed once."""
    found = {path.relative_to(_FOLDER).as_posix(): path for path in sorted(_FOLDER.rglob("*")) if path.is_file()}
    contents = {name: path.read_bytes() for name, path in found.items()}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(b"%s %d " % (name.encode(), len(content)) + content)
    version = digest.hexdigest()[:16]
    first = "\n".join(
        f'<link rel="modulepreload" href="{ROOT}/static/{version}/{name}">'
        for name in contents
        if name.endswith(".js") and not name.startswith(("views/", "folds/"))
    )
    page = contents.pop("index.html").decode().replace("HASH", version).replace("PRELOADS", first)
    return Site(page, {name: _file(name, one) for name, one in contents.items()}, version)


@lru_cache(maxsize=16)
def page_at(prefix: str, *, own_login: bool) -> StaticFile:
    """Return the page of a server that is mounted at `prefix`. With an `own_login` of the application around it, the
    page asks for no key."""
    page = site().page.replace(f'"{ROOT}/', f'"{escape(prefix)}{ROOT}/')
    page = page.replace("<html ", '<html data-login="application" ') if own_login else page
    return _file("index.html", page.encode())


def _file(name: str, content: bytes) -> StaticFile:
    kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    charset = "; charset=utf-8" if kind.startswith("text/") else ""
    return StaticFile(kind + charset, content, gzip.compress(content, 9, mtime=0))


def _sent(request: Request, file: StaticFile, caching: str, version: str) -> Response:
    tag = f'W/"{version}"'
    headers = {**_HEADERS, "Cache-Control": caching, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers=headers | {"Content-Encoding": "gzip"})
    return Response(file.content, media_type=file.media_type, headers=headers)
