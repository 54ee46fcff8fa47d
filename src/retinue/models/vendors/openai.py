"""OpenAI, and any server that speaks its format."""

from __future__ import annotations

import re
from dataclasses import replace

from ..engine import Format
from ..wires import chat, responses
from .vendor import Vendor

_REASONS = re.compile(  # https://developers.openai.com/api/docs/models
    r"(?:ft:)?(?!o1-mini|o1-preview|.*(?:search-|audio|realtime))(?:o\d|codex|computer-use|gpt-(?!3|4|oss|image))"
)


def reasons(model: str) -> bool:
    """Return whether a model of OpenAI's, by its name, thinks before it replies."""
    return _REASONS.match(model) is not None


FORMAT = Format("/v1", chat.CHAT, chat.COMPLETIONS, responses.RESPONSES, dialect="openai")
VENDOR = Vendor(
    "OpenAI",
    "https://api.openai.com/v1",
    replace(FORMAT, suits=reasons),
    ("OPENAI_API_KEY",),
    "OPENAI_BASE_URL",
    "none",
)
