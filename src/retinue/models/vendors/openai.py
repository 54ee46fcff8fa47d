"""OpenAI, and any server that speaks its format."""

from __future__ import annotations

import re

from ...core.values import Kind
from ..vendor import Vendor
from ..wires import chat, responses

_REASONS = re.compile(  # https://developers.openai.com/api/docs/models
    r"(?:ft:)?(?!o1-mini|o1-preview|.*(?:search-|audio|realtime))(?:o\d|codex|computer-use|gpt-(?!3|4|oss|image))"
)
_OWN = re.compile(r"(ft:)?(gpt-|chatgpt-|o\d|computer-use)")
_BLIND = re.compile(
    r"gpt-3|gpt-4(-\d{4}|-32k.*|-\d{4}-preview|-turbo-preview)?(:|$)|o1-mini|o1-preview|o3-mini|-audio|-realtime|-search"
    r"|-transcribe|-tts|gpt-oss|-instruct"
)


def is_reasoning_model(model: str) -> bool:
    """Return whether a model of OpenAI's, by its name, thinks before it replies."""
    return _REASONS.match(model) is not None


def read_kinds(model: str) -> frozenset[Kind]:
    """Return what a model of OpenAI's can be sent, by its name. Those that see read PDFs, too:
    https://platform.openai.com/docs/guides/pdf-files. Those with "audio" in their names hear."""
    if _OWN.match(model) is None:
        return frozenset()
    if "-audio" in model:
        return frozenset(("audio",))
    return frozenset() if _BLIND.search(model) else frozenset(("image", "pdf"))


VENDOR = Vendor(
    "OpenAI",
    "https://api.openai.com/v1",
    chat.CHAT,
    chat.COMPLETIONS,
    responses.RESPONSES,
    keys=("OPENAI_API_KEY",),
    environment="OPENAI_BASE_URL",
    detected="none",
    suits=is_reasoning_model,
    reads=read_kinds,
    takes_files=True,
    hosts=r"([a-z]{2}\.)?api\.openai\.com",
    priced_as="openai",
)
