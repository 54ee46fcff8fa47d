"""Anthropic."""

from __future__ import annotations

from ..engine import Format
from ..wires import messages
from .vendor import Vendor

VENDOR = Vendor(
    "Anthropic",
    "https://api.anthropic.com/v1",
    Format("/v1", messages.MESSAGES, dialect="anthropic", headers=messages.headers),
    ("ANTHROPIC_API_KEY",),
)
