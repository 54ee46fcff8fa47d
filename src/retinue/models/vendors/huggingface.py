"""Hugging Face: its router, or an endpoint of one's own."""

from __future__ import annotations

from .openai import FORMAT
from .vendor import Vendor

VENDOR = Vendor("Hugging Face", "https://router.huggingface.co/v1", FORMAT, ("HF_TOKEN",), detected="openai")
