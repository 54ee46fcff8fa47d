"""Ids as OpenAI's look: a prefix and 24 letters and digits, 96 random bits."""

from __future__ import annotations

import secrets


def new_id(prefix: str) -> str:
    """A new one, e.g. `thread_…`; those of files are `file-…`."""
    return f"{prefix}{'-' if prefix == 'file' else '_'}{secrets.token_hex(12)}"
