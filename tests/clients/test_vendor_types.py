"""Requests to vendors, held against the types of the vendors' own SDKs (`make clients` installs them)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakes.vendors import VendorServer
from retinue import Agent, PromptModel, tool
from retinue.testing import SCRIPT

PROGRAMS = Path(__file__).with_name("programs") / "types"
CLIENTS = Path(__file__).parents[2] / ".clients"
OPTIONS = {"generationConfig": {"topK": 3}, "toolConfig": {"includeServerSideToolInvocations": True}}

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (CLIENTS / "installed").exists(), reason="the clients are not installed: `make clients`"),
]


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b}"


@tool(effects="read")
def look(what: str, votes: dict[str, int] | None = None) -> str:
    """Look something up."""
    return f"{what} is a town."


def test_geminis_requests_are_of_googles_types() -> None:
    asked: list[Any] = []
    for settings in ({}, {"effort": "low", "summary": "auto", "temperature": 0.5}, {"options": OPTIONS}):
        for vendor in ("gemini", "vertex"):
            with VendorServer(vendor) as server:
                given: dict[str, Any] = {"base_url": server.url, "api_key": server.key, **settings}
                model = PromptModel(server.model, engine=vendor, **given)
                result = Agent(model, [add, look]).run("What is 12 + 30, and what about Åbo?")
                assert result.answer == SCRIPT[-1].text
                asked += server.asked
    lines = "\n".join(json.dumps(one.body) for one in asked)
    words = [CLIENTS / "bin" / "python", PROGRAMS / "google_genai.py"]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, str(len(asked))), done.stderr
