"""Gemini, in Google's own format."""

from __future__ import annotations

from ..engine import Format
from ..wires import generate_content
from .vendor import Vendor

FORMAT = Format("/v1beta", generate_content.GENERATE_CONTENT, dialect="gemini", headers=generate_content.headers)
VENDOR = Vendor(
    "Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    FORMAT,
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
)
