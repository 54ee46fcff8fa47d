"""The vendors' own SDKs at our stand-ins (`make clients` installs them): they read what these say, as the vendors'."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fakes.vendors import VendorServer
from retinue.testing import SCRIPT

PROGRAM = Path(__file__).with_name("programs") / "vendors" / "vendor_sdks.py"
CLIENTS = Path(__file__).parents[2] / ".clients"

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (CLIENTS / "installed").exists(), reason="the clients are not installed: `make clients`"),
]


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini", "mistral", "cohere", "ollama", "groq"])
def test_a_vendors_sdk_reads_and_sends_back_what_the_stand_in_says(vendor: str) -> None:
    with VendorServer(vendor) as server:
        about = (server.address, server.vendor.root, server.key, server.model)
        words = [str(CLIENTS / "bin" / "python"), str(PROGRAM), vendor, *about]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [SCRIPT[-1].text] * 2
        assert not server.refusals
        assert len(server.asked) == 2 * len(SCRIPT)
