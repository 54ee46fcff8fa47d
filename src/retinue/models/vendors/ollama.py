"""Ollama, in its own format."""

from __future__ import annotations

from ..engine import Format
from ..wires import ollama
from .vendor import Vendor

VENDOR = Vendor("Ollama", "http://localhost:11434/api", Format("/api", ollama.CHAT, dialect="ollama"))
