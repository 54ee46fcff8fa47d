"""A server of llama.cpp."""

from __future__ import annotations

from dataclasses import replace

from .openai import FORMAT
from .vendor import Vendor

VENDOR = Vendor("llama.cpp", "http://localhost:8080/v1", replace(FORMAT, dialect="llamacpp"))
