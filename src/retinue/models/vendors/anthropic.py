"""Anthropic."""

from __future__ import annotations

from ...core.values import Kind
from ..vendor import Vendor
from ..wires import messages

VERSION = {"anthropic-version": "2023-06-01"}  # of the format
_BLIND = ("claude-1", "claude-2", "claude-instant")


def read_kinds(model: str) -> frozenset[Kind]:
    """Return what a Claude can be sent: https://platform.claude.com/docs/en/build-with-claude/pdf-support"""
    return frozenset() if model.startswith(_BLIND) else frozenset(("image", "pdf"))


VENDOR = Vendor(
    "Anthropic",
    "https://api.anthropic.com/v1",
    messages.MESSAGES,
    keys=("ANTHROPIC_API_KEY",),
    dialect="anthropic",
    headers=lambda key: {"x-api-key": key, **VERSION},
    reads=read_kinds,
    takes_files=True,
    priced_as="anthropic",
)
