"""The vendors whose APIs `VendorServer` plays, by name. Each wire format is a file."""

from collections.abc import Mapping

from . import anthropic, cohere, gemini, ollama, openai_chat, openai_responses
from .api import Rule, Vendor

VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for module in (openai_responses, openai_chat, anthropic, gemini, cohere, ollama)
    for vendor in module.VENDORS
}


def vendor_rules(vendor: str) -> tuple[Rule, ...]:
    """Return the rules of `vendor`, which is one of `VENDORS`."""
    return VENDORS[vendor].rules
