"""A server of TGI."""

from __future__ import annotations

from dataclasses import replace

from .openai import FORMAT
from .vendor import Vendor

VENDOR = Vendor("TGI", "http://localhost:8080/v1", replace(FORMAT, dialect="tgi"))
