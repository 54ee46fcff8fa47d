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
from .._internal.source_text import Found, fail
from .._internal.yaml_text import read_file
from ..core.prices import Price, PriceList, use_price_list
from ..errors import UsageError

VARIABLE, NAME = "RETINUE_PRICES", "prices.yml"
_KEYS = ("currency", "models")
_WANTED = "want {input: …, output: …} for a million tokens each"


def use_prices(path: str | Path | None = None, *, beside: str | Path | None = None) -> Path | None:
    """Have the models of this process that say nothing else cost what a file says. Return the file, if there is one.

    Without `path`, it is the one in the variable RETINUE_PRICES; or else `prices.yml` beside the file of agents
    (`beside`); or else `prices.yml` in the user's folder of settings. Raises `DataError` with all problems of it."""
    if path is None and (said := os.environ.get(VARIABLE, "").strip()):
        path = said
    if path is None:
        places = [] if beside is None else [Path(beside).parent / NAME]
        places.append(user_config_path("retinue", appauthor=False) / NAME)
        path = next((one for one in places if one.is_file()), None)
    use_price_list(PriceList() if path is None else load_prices(path))
    return None if path is None else Path(path)


def load_prices(path: str | Path) -> PriceList:
    """Read a file of prices. Raises `DataError` with all problems of it."""
    source = read_file(path)
    fail(source.problems)
    prices: dict[str, Price] = {}
    fail(sorted(source.locate_problem(one) for one in _read_prices(source.value, prices)))
    return PriceList(prices, source.value.get("currency", "").strip())


def _read_prices(whole: Any, prices: dict[str, Price]) -> Iterator[Found]:
    """Yield what is wrong in a file, and add the prices to `prices`."""
    if not isinstance(whole, Mapping) or not isinstance(whole.get("models"), Mapping):
        yield Found((), "want a mapping `models` of models' names to their prices")
        return
    for name in whole:
        if name not in _KEYS:
            yield Found((name,), f"unknown key {name!r:.80}; {suggest_name(name, _KEYS)}", at_key=True)
    if not isinstance(whole.get("currency", ""), str):
        yield Found(("currency",), "want a text, such as USD")
    for name, given in whole["models"].items():
        if "*" in name[:-1]:
            yield Found(("models", name), f"{name!r:.80}: a * may only be at the end of a name")
        elif not isinstance(given, Mapping):
            yield Found(("models", name), _WANTED)
        else:
            try:
                prices[name] = Price.of(given)
            except UsageError as error:
                yield Found(("models", name), str(error).removeprefix("price: "))
