"""OpenAI, and any server that speaks its format."""

from __future__ import annotations

from ..engine import Format
from ..wires import chat
from .vendor import Vendor

FORMAT = Format("/v1", chat.CHAT, chat.COMPLETIONS, dialect="openai")
VENDOR = Vendor("OpenAI", "https://api.openai.com/v1", FORMAT, ("OPENAI_API_KEY",), "OPENAI_BASE_URL", "none")
