"""The scope that each request requires. No other module decides this."""

from __future__ import annotations

import re
from typing import Literal

from .api_errors import ApiError

ScopeName = Literal["read", "runs", "agents", "memories", "tools", "prompts", "audit", "all"]
NAMES: tuple[ScopeName, ...] = ("read", "runs", "agents", "memories", "tools", "prompts", "audit", "all")
_READING = ("GET", "HEAD", "OPTIONS")
_WRITING: dict[str, ScopeName] = {  # by the first path segment after /v1
    "chat": "runs",
    "responses": "runs",
    "completions": "runs",
    "embeddings": "runs",
    "audio": "runs",
    "threads": "runs",
    "conversations": "runs",
    "runs": "runs",
    "assistants": "agents",
    "files": "agents",
    "uploads": "agents",
    "vector_stores": "agents",
    "models": "agents",
    "memories": "memories",
    "tools": "tools",
}
_PRIVATE = re.compile(r"/v1/memories(/.*)?")  # reading is not for every key that may read
_AUDIT = re.compile(r"/v1/audit(/.*)?")
_OPERATORS = re.compile(r"/v1/studio/evals(/.*)?")  # no tenant's
_ASKING = re.compile(  # POSTs that only read
    r"/v1/vector_stores/[^/]+/search|/a2a/.+/tasks/[^/]+:subscribe|/v1/runs/[^/]+/replay"
)


def needed(method: str, path: str) -> ScopeName:
    """Return the scope that a request requires: `read` if it changes nothing, `runs` for conversations and runs,
    `agents` for agents and their resources, `memories` to see or delete what is remembered, `tools` to register tools,
    `prompts` for what is the operator's, `audit` for the audit log. Unknown paths require `all`."""
    if _PRIVATE.fullmatch(path):
        return "memories"
    if _OPERATORS.fullmatch(path):
        return "prompts"
    if _AUDIT.fullmatch(path):
        return "audit"
    if method in _READING or _ASKING.fullmatch(path):
        return "read"
    if path.startswith("/a2a/"):
        return "runs"
    _, version, *words = f"{path}/".split("/")
    return _WRITING.get(words[0], "all") if version == "v1" and words else "all"


def allowed(scopes: tuple[str, ...] | None, wanted: ScopeName) -> bool:
    """Whether a key with `scopes` may make requests that require `wanted`."""
    if wanted == "prompts":
        return sees_prompts(scopes)
    if wanted == "audit":
        return scopes is not None and "audit" in scopes
    return scopes is None or "all" in scopes or wanted in scopes


def sees_prompts(scopes: tuple[str, ...] | None) -> bool:
    """Whether a key sees the operator's prompts, and the engines' own words. No other scope contains this one, nor does
    a key without scopes have it."""
    return scopes is not None and "prompts" in scopes


def missing(wanted: ScopeName) -> ApiError:
    """Return the error for a key without the scope `wanted`."""
    message = f"You have insufficient permissions for this operation. Missing scopes: {wanted}."
    return ApiError(403, message, code="missing_scope")
