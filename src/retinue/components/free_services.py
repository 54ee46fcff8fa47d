"""Services without keys: `CurrencyConverter`, at the rates of the European Central Bank, and `Weather`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypedDict

from ..core.component import QueryComponent
from ..errors import ToolError
from ..net.service_client import Service, ServiceRequest, check_query
from .services import as_mapping, fetch_object, first_of, read_text

_QUERY = re.compile(r"(\d[\d,_ ]*(?:\.\d+)?)?\s*([A-Za-z]{3})\s*(?:in|to|into|as|=|->|→)\s*([A-Za-z]{3})[ ?.]*", re.I)
_CODE = re.compile(r"[A-Z]{3}")
_NOW = "temperature_2m,relative_humidity_2m,precipitation,weather_code,wind_speed_10m"
_TODAY = "weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,precipitation_probability_max"
_CODES: Mapping[Any, str] = {  # the WMO's, which Open-Meteo uses
    0: "clear sky", 1: "mainly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 48: "freezing fog",
    51: "light drizzle", 53: "drizzle", 55: "dense drizzle", 56: "light freezing drizzle", 57: "freezing drizzle",
    61: "slight rain", 63: "rain", 65: "heavy rain", 66: "light freezing rain", 67: "heavy freezing rain",
    71: "slight snowfall", 73: "snowfall", 75: "heavy snowfall", 77: "snow grains", 80: "slight rain showers",
    81: "rain showers", 82: "violent rain showers", 85: "slight snow showers", 86: "heavy snow showers",
    95: "thunderstorm", 96: "thunderstorm with slight hail", 99: "thunderstorm with heavy hail",
}  # fmt: skip


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


class Reported(TypedDict):
    """The outputs of `Weather`: `results`, the text for a model; and the values `now` and `today` with their units, by
    Open-Meteo's names."""

    results: str
    now: dict[str, str]
    today: dict[str, str]


class Weather(QueryComponent[Reported]):
    """The weather at a place, from open-meteo.com, which is free without a key for non-commercial use.

    `base_url` and `geocoding_url` may point to other servers. `seconds` is the time limit of each of the two requests:
    geocoding and forecast.
    """

    def __init__(
        self,
        *,
        base_url: str = "https://api.open-meteo.com/v1",
        geocoding_url: str = "https://geocoding-api.open-meteo.com/v1",
        seconds: float = 20.0,
    ) -> None:
        self.name = "Weather"
        self._forecast = Service("Open-Meteo", base_url, "", seconds)
        self._geocoding = Service("Open-Meteo", geocoding_url, "", seconds)

    async def run_async(self, query: str) -> Reported:
        """The weather at a place, now and today. Give the name of a town, or a postal code.

        Raises `ToolError` for a place that is not known, or if the weather cannot be had.
        """
        name = check_query(query, "place")
        params = {"name": name, "count": "1", "language": "en", "format": "json"}
        places = await fetch_object(self._geocoding, ServiceRequest("/search", params), "places")
        place = as_mapping(first_of(places.get("results")))
        where = {key: place.get(key) for key in ("latitude", "longitude")}
        if not all(isinstance(value, int | float) for value in where.values()):
            raise ToolError(
                f"no place called {name[:80]!r} is known; give the name of a town alone, or another one near"
            )
        params = {key: str(value) for key, value in where.items()}
        params |= {"current": _NOW, "daily": _TODAY, "timezone": "auto", "forecast_days": "1"}
        given = await fetch_object(self._forecast, ServiceRequest("/forecast", params), "a forecast")
        now, today = _read_values(given, "current"), _read_values(given, "daily")
        if "temperature_2m" not in now:
            raise ToolError("Open-Meteo answered with something that is not the JSON of a forecast")
        return {"results": _format_report(place, now, today), "now": now, "today": today}


def _read_values(given: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return the values of a part of a forecast with their units; of daily values, the first."""
    units = as_mapping(given.get(f"{part}_units"))
    found: dict[str, str] = {}
    for key, value in as_mapping(given.get(part)).items():
        first = value[0] if isinstance(value, list) and value else value
        if key == "weather_code":
            found[key] = _CODES.get(first if isinstance(first, int) else None, "")
        elif text := read_text(first):
            unit = "" if key in ("time", "interval") else read_text(units.get(key))
            found[str(key)] = f"{text}{'' if unit.startswith(('°', '%')) else ' '}{unit}".strip()
    return found


def _format_report(place: Mapping[str, Any], now: Mapping[str, str], today: Mapping[str, str]) -> str:
    where = ", ".join(filter(None, (read_text(place.get(key)) for key in ("name", "admin1", "country"))))
    current = [now.get("weather_code", ""), now["temperature_2m"]]
    for key, label in (("relative_humidity_2m", "humidity"), ("wind_speed_10m", "wind")):
        current += [f"{label} {now[key]}"] if key in now else []
    day = [today.get("weather_code", "")]
    if "temperature_2m_min" in today and "temperature_2m_max" in today:
        day.append(f"{today['temperature_2m_min']} to {today['temperature_2m_max']}")
    if "precipitation_sum" in today:
        chance = today.get("precipitation_probability_max", "")
        day.append(f"precipitation {today['precipitation_sum']}" + (f" (chance {chance})" if chance else ""))
    said = f"{where}, {now.get('time', 'now')}: {', '.join(filter(None, current))}."
    return f"{said} Today: {', '.join(filter(None, day))}." if any(day) else said
