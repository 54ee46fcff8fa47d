"""What a key must be allowed to do for a request. This is the one place that says so of every route."""

from __future__ import annotations

import re
from typing import Literal

from ..wire.api_errors import ApiError

ScopeName = Literal["read", "runs", "agents", "all"]
NAMES: tuple[ScopeName, ...] = ("read", "runs", "agents", "all")
_READING = ("GET", "HEAD", "OPTIONS")
_WRITING: dict[str, ScopeName] = {  # by the first word of the path after /v1
    "chat": "runs",
    "responses": "runs",
    "embeddings": "runs",
    "threads": "runs",
    "conversations": "runs",
    "assistants": "agents",
    "files": "agents",
    "uploads": "agents",
    "vector_stores": "agents",
    "models": "agents",
}
_ASKING = re.compile(r"/v1/vector_stores/[^/]+/search")  # reads, though it is no GET


def needed(method: str, path: str) -> ScopeName:
    """The scope that a request needs: `read` where nothing is changed, `runs` for conversations and what answers
    them, `agents` for what answers are made of. What is not known needs `all`."""
    if method in _READING or _ASKING.fullmatch(path):
        return "read"
    _, version, *words = f"{path}/".split("/")
    return _WRITING.get(words[0], "all") if version == "v1" and words else "all"


def allowed(scopes: tuple[str, ...] | None, wanted: ScopeName) -> bool:
    """Whether a key with `scopes` may do what needs `wanted`."""
    return scopes is None or "all" in scopes or wanted in scopes


def missing(wanted: ScopeName) -> ApiError:
    """What is said to a key that may not do what needs `wanted`."""
    message = f"You have insufficient permissions for this operation. Missing scopes: {wanted}."
    return ApiError(403, message, code="missing_scope")
