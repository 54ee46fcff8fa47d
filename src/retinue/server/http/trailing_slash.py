"""Accepts paths with a trailing slash."""

from __future__ import annotations

from starlette.types import Scope


def without_slash(scope: Scope) -> Scope:
    """Strip the trailing slash from the path, which RFC 003 uses in places. Frameworks redirect instead, which loses
    the body."""
    if len(scope["path"]) < 2 or not scope["path"].endswith("/"):
        return scope
    raw = scope.get("raw_path") or b""
    return {**scope, "path": scope["path"][:-1], "raw_path": raw.removesuffix(b"/")}
