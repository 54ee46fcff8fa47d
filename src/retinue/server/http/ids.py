"""Ids in OpenAI's format: a prefix and 24 hex digits (96 random bits)."""

from __future__ import annotations

import secrets


def new_id(prefix: str) -> str:
    """Return a new id, such as `thread_…`; file ids begin with `file-`."""
    return f"{prefix}{'-' if prefix == 'file' else '_'}{secrets.token_hex(12)}"
