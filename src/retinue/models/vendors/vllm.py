"""A server of vLLM."""

from __future__ import annotations

from dataclasses import replace

from .openai import FORMAT
from .vendor import Vendor

VENDOR = Vendor("vLLM", "http://localhost:8000/v1", replace(FORMAT, dialect="vllm"))
