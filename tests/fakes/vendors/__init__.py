"""The vendors whose APIs the tests play, each with its rules and their sources; a file has what speaks one format.

with VendorServer("anthropic") as server:
    model = PromptModel(server.model, engine="anthropic", base_url=server.url, api_key=server.key)
"""

from collections.abc import Mapping
from typing import Any

from retinue import testing
from retinue.testing import Vendor

from . import anthropic, cohere, gemini, ollama, openai_chat, openai_responses

_FILES = (openai_responses, openai_chat, anthropic, gemini, cohere, ollama)
VENDORS: Mapping[str, Vendor] = {vendor.name: vendor for module in _FILES for vendor in module.VENDORS}


class VendorServer(testing.VendorServer):
    """The stand-in server of a vendor, by name."""

    def __init__(self, vendor: str, **more: Any) -> None:
        super().__init__(VENDORS[vendor], **more)
