"""The rules of vendors, as their stand-ins enforce them: what is right passes, and what a rule wants is needed."""

from __future__ import annotations

import re

from fakes.faithful import converse
from fakes.rule_breaking import BREAKS, Break, deeper
from retinue.testing import SCRIPT, VENDORS, VendorServer
from retinue.testing.vendors.api import Vendor


def test_a_faithful_client_is_refused_nothing() -> None:
    for vendor in VENDORS.values():
        for model in vendor.models:
            with VendorServer(vendor.name) as server:
                answer = converse(server, model)
                assert (server.refusals, answer) == ([], SCRIPT[-1].text), (vendor.name, model)
                assert len(server.asked) == len(SCRIPT), (vendor.name, model)


def test_each_rule_is_broken_by_leaving_out_what_it_wants() -> None:
    for vendor in VENDORS.values():
        with VendorServer(vendor.name) as server:
            own = server.model
            for rule in vendor.rules:
                assert rule.wants, rule.name
                assert rule.source.startswith("https://"), rule.name
                ways = [one for one in BREAKS[rule.name] if _fits(one, vendor)]
                assert ways, (vendor.name, rule.name)
                for number, way in enumerate(ways):
                    server.tamper = deeper(way.change)
                    server.refusals.clear()
                    answer = converse(server, way.model or own)
                    assert (answer, [one.rule for one in server.refusals]) == (None, [rule.name]), (vendor.name, number)


def _fits(way: Break, vendor: Vendor) -> bool:
    """Whether a way of breaking a rule is one for this vendor."""
    return bool(re.match(way.vendor, vendor.name)) and way.model in ("", *vendor.models)
