"""The rules of vendors, as their stand-ins enforce them: what is right passes, and what a rule wants is needed."""

from __future__ import annotations

from fakes.faithful import converse
from retinue.testing import SCRIPT, VENDORS, VendorServer


def test_a_faithful_client_is_refused_nothing() -> None:
    for vendor in VENDORS.values():
        for model in vendor.models:
            with VendorServer(vendor.name) as server:
                answer = converse(server, model)
                assert (server.refusals, answer) == ([], SCRIPT[-1].text), (vendor.name, model)
                assert len(server.asked) == len(SCRIPT), (vendor.name, model)
