"""The rules of vendors, as their stand-ins enforce them: what is right passes, and what a rule wants is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from fakes.engines import SOON
from fakes.faithful import QUESTION, converse
from fakes.rule_breaking import BREAKS, Break, deeper
from retinue import Agent, PromptModel, RunResult, tool
from retinue.core.events import Called
from retinue.models.vendors import NAMES as ENGINE_NAMES
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


# ── Retinue's engines ────────────────────────────────────────────────────────────────────────────

ENGINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # of stand-ins: the engine, and what a user writes
    "openai": ("openai", {"api": "responses"}),
    "openai-chat": ("openai", {"api": "chat", "effort": "none"}),
    "azure": ("azure", {}),
    "azure-chat": ("azure", {"api": "chat", "effort": "none"}),
    "xai-responses": ("xai", {"api": "responses"}),
    "anthropic-vertex": ("vertex", {}),
    "gemini-chat": ("openai", {"api": "chat", "dialect": "openai"}),
}


def engine_of(vendor: str) -> str:
    """Return the engine's name for a stand-in."""
    return ENGINES.get(vendor, (vendor, {}))[0]


def model(server: VendorServer, **settings: Any) -> PromptModel:
    """A model of the engine for this stand-in; it asks again without waiting long."""
    engine, own = ENGINES.get(server.vendor.name, (server.vendor.name, {}))
    if "Messages" in type(server.vendor.wire).__name__:
        own = {"effort": "medium", **own}
    chosen = {"retries": SOON, "api_key": server.key, **own, **settings}
    return PromptModel(server.model, engine=engine, base_url=chosen.pop("base_url", server.url), **chosen)


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b}"


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is a town."


HAVE = [name for name in VENDORS if engine_of(name) in ENGINE_NAMES]


@pytest.mark.matrix
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("strategy", ["auto", "tool_calling"])
@pytest.mark.parametrize("vendor", HAVE)
def test_a_run_in_the_library(vendor: str, strategy: str, stream: bool) -> None:
    for name in VENDORS[vendor].models:
        with VendorServer(vendor) as server:
            server.model = name
            result = Agent(model(server, stream=stream), [add, look], strategy=strategy).run(QUESTION)
            assert (server.refusals, result.answer) == ([], SCRIPT[-1].text), name
            assert calls_of(result) == [call for turn in SCRIPT for call in turn.calls], name


def calls_of(result: RunResult) -> list[tuple[str, Any]]:
    """The calls that were made, in order."""
    return [(one.action.tool, one.action.tool_input) for one in result.events if isinstance(one, Called)]
