"""`CurrencyConverter`: converts amounts of money at the reference rates of the European Central Bank."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TypedDict

from ..core.component import QueryComponent
from ..errors import ToolError
from ..net.service_client import Service, ServiceRequest, check_query
from .services import fetch_object

_QUERY = re.compile(r"(\d[\d,_ ]*(?:\.\d+)?)?\s*([A-Za-z]{3})\s*(?:in|to|into|as|=|->|→)\s*([A-Za-z]{3})[ ?.]*", re.I)
_CODE = re.compile(r"[A-Z]{3}")


class Conversion(TypedDict):
    """The outputs of `CurrencyConverter`: `results`, the text for a model, and its values. `date` is the rate's."""

    results: str
    amount: float
    rate: float
    date: str


class CurrencyConverter(QueryComponent[Conversion]):
    """Converts money at the last working day's rates from frankfurter.dev, a free service without keys.

    As a component it takes a query such as `100 EUR in USD`. `base_url` may point to another server; `seconds` is the
    time limit.
    """

    def __init__(self, *, base_url: str = "https://api.frankfurter.dev/v1", seconds: float = 20.0) -> None:
        self.name = "CurrencyConverter"
        self._service = Service("Frankfurter", base_url, "", seconds)
        self.tool_function = self.convert

    async def convert(self, amount: float, source: str, target: str) -> Conversion:
        """Convert an amount of money from one currency to another.

        Args:
            amount: how much
            source: the currency it is in, as an ISO code such as EUR
            target: the currency it is wanted in, such as USD
        """
        source, target = currencies = source.strip().upper(), target.strip().upper()
        for currency in currencies:
            if not _CODE.fullmatch(currency):
                raise ToolError(f"want a currency as an ISO code such as EUR or USD, not {currency[:40]!r}")
        if not math.isfinite(amount):
            raise ToolError("the amount is not a number")
        rate, date = (1.0, "") if source == target else await self._fetch_rate(source, target)
        money = float(Decimal(str(amount)) * Decimal(str(rate)))
        said = f"{amount:,.2f} {source} = {money:,.2f} {target}" + (f" (rate {rate:g} of {date})" if date else "")
        return {"results": said, "amount": money, "rate": rate, "date": date}

    async def run_async(self, query: str) -> Conversion:
        """Convert an amount of money, as in: 100 EUR in USD.

        Raises `ToolError` for an invalid query or unknown currency, or if no rate is available.
        """
        match = _QUERY.fullmatch(check_query(query))
        if match is None:
            raise ToolError(f"want an amount and two currencies, as in 100 EUR in USD, not {query[:80]!r}")
        amount = float(re.sub(r"[,_ ]", "", match[1] or "1"))
        return await self.convert(amount, match[2], match[3])

    async def _fetch_rate(self, source: str, target: str) -> tuple[float, str]:
        body = await fetch_object(
            self._service, ServiceRequest("/latest", {"base": source, "symbols": target}), "a rate"
        )
        rates, date = body.get("rates"), body.get("date")
        rate = rates.get(target) if isinstance(rates, dict) else None
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ToolError(f"there is no rate from {source} to {target}")
        return float(rate), date if isinstance(date, str) else "an unknown day"
