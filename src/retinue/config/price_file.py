"""The file of prices, which its user owns: what the tokens of each model cost.

currency: USD           # with another one, published prices are not used beside these
models:
  gpt-5-mini: {input: 0.25, output: 2, cached: 0.025}     # for a million tokens each
  "anthropic:claude-*": {input: 3, output: 15}
  "local:*": {input: 0, output: 0}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from .._internal.message_text import suggest_name
from ..core.prices import Price, PriceList, use_price_list
from ..errors import UsageError
from .problems import Found, Source, fail
from .yaml_text import read_file

VARIABLE, NAME = "RETINUE_PRICES", "prices.yml"
_KEYS = ("currency", "models")
_WANTED = "want {input: …, output: …} for a million tokens each"


def use_prices(path: str | Path | None = None, *, beside: str | Path | None = None) -> Path | None:
    """Have the models of this process that say nothing else cost what a file says. Return the file, if there is one.

    Without `path`, it is the one in the variable RETINUE_PRICES; or else `prices.yml` beside the file of agents
    (`beside`); or else `prices.yml` in the user's folder of settings. Raises `DataError` with all problems of it."""
    found = _find_file(beside) if path is None else Path(path)
    use_price_list(PriceList() if found is None else load_prices(found))
    return found


def _find_file(beside: str | Path | None) -> Path | None:
    if said := os.environ.get(VARIABLE, "").strip():
        return Path(said)
    places = [] if beside is None else [Path(beside).parent / NAME]
    return next((one for one in (*places, user_config_path("retinue", appauthor=False) / NAME) if one.is_file()), None)


def load_prices(path: str | Path) -> PriceList:
    """Read a file of prices. Raises `DataError` with all problems of it."""
    source = read_file(path)
    fail(source.problems)
    prices: dict[str, Price] = {}
    fail(sorted(source.locate_problem(one) for one in _read_prices(source, prices)))
    return PriceList(prices, source.value.get("currency", "").strip())


def _read_prices(source: Source, prices: dict[str, Price]) -> Iterator[Found]:
    """Yield what is wrong in a file, and add the prices to `prices`."""
    whole = source.value
    if not isinstance(whole, Mapping) or not isinstance(whole.get("models"), Mapping):
        yield Found((), "want a mapping `models` of models' names to their prices")
        return
    for name in whole:
        if name not in _KEYS:
            yield Found((name,), f"unknown key {name!r:.80}; {suggest_name(name, _KEYS)}", at_key=True)
    if not isinstance(whole.get("currency", ""), str):
        yield Found(("currency",), "want a text, such as USD")
    for name, given in whole["models"].items():
        price = _read_price(name, given)
        if isinstance(price, Price):
            prices[name] = price
        else:
            yield Found(("models", name), price)


def _read_price(name: str, given: Any) -> Price | str:
    """Return the prices of a model, or what is wrong with them."""
    if "*" in name[:-1]:
        return f"{name!r:.80}: a * may only be at the end of a name"
    if not isinstance(given, Mapping):
        return _WANTED
    try:
        return Price.of(given)
    except UsageError as error:
        return str(error).removeprefix("price: ")
