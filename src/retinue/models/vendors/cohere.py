"""Cohere."""

from __future__ import annotations

from ..engine import Format
from ..wires import cohere
from .vendor import Vendor

VENDOR = Vendor(
    "Cohere",
    "https://api.cohere.com/v2",
    Format("/v2", cohere.CHAT, dialect="cohere"),
    ("CO_API_KEY", "COHERE_API_KEY"),
)
