"""Servers that speak for frankfurter.dev (v1), open-meteo.com and MediaWiki's Action API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .json_service import Asked, JSONService, Said


class FrankfurterServer(JSONService):
    """`rates`: what a euro is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: dict[str, float] = {"EUR": 1.0, "USD": 1.0465, "GBP": 0.8335}

    def answer(self, asked: Asked) -> Said:
        base, symbols = asked.params.get("base", "EUR"), asked.params.get("symbols", "").split(",")
        if asked.path != "/latest" or not {base, *symbols} <= self.rates.keys():
            return 404, {"message": "not found"}, {}
        rates = {one: round(self.rates[one] / self.rates[base], 5) for one in symbols if one != base}
        return 200, {"amount": 1.0, "base": base, "date": "2024-11-25", "rates": rates}, {}


FORECAST = {
    "latitude": 52.52,
    "longitude": 13.42,
    "generationtime_ms": 0.1,
    "utc_offset_seconds": 3600,
    "timezone": "Europe/Berlin",
    "elevation": 38.0,
    "current_units": {
        "time": "iso8601", "interval": "seconds", "temperature_2m": "°C", "relative_humidity_2m": "%",
        "precipitation": "mm", "weather_code": "wmo code", "wind_speed_10m": "km/h",
    },
    "current": {
        "time": "2024-11-25T14:15", "interval": 900, "temperature_2m": 13.1, "relative_humidity_2m": 70,
        "precipitation": 0.0, "weather_code": 2, "wind_speed_10m": 18.4,
    },
    "daily_units": {
        "time": "iso8601", "weather_code": "wmo code", "temperature_2m_max": "°C", "temperature_2m_min": "°C",
        "precipitation_sum": "mm", "precipitation_probability_max": "%",
    },
    "daily": {
        "time": ["2024-11-25"], "weather_code": [61], "temperature_2m_max": [14.9], "temperature_2m_min": [9.0],
        "precipitation_sum": [1.2], "precipitation_probability_max": [45],
    },
}  # fmt: skip


class OpenMeteoServer(JSONService):
    """Both of Open-Meteo's servers: `/search` finds `places`, `/forecast` is the same everywhere."""

    def __init__(self) -> None:
        super().__init__()
        berlin = {"id": 2950159, "name": "Berlin", "latitude": 52.52437, "longitude": 13.41053, "elevation": 74.0,
                  "feature_code": "PPLC", "country_code": "DE", "admin1": "State of Berlin", "country": "Germany",
                  "timezone": "Europe/Berlin", "population": 3426354}  # fmt: skip
        self.places: dict[str, Mapping[str, Any]] = {"berlin": berlin}
        self.forecast: Any = FORECAST

    def answer(self, asked: Asked) -> Said:
        if asked.path == "/search":
            place = self.places.get(asked.params["name"].lower())
            return 200, {"generationtime_ms": 0.5} | ({"results": [place]} if place else {}), {}
        if not -90 <= float(asked.params["latitude"]) <= 90:
            return 400, {"error": True, "reason": "Latitude must be in range of -90 to 90°."}, {}
        return 200, self.forecast, {}


class MediaWikiServer(JSONService):
    """`pages`: titles and texts; `redirects`: other titles of them; `ambiguous`: titles that may refer to others."""

    def __init__(self, pages: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.pages = dict(pages or {})
        self.redirects: dict[str, str] = {}
        self.ambiguous: set[str] = set()

    def answer(self, asked: Asked) -> Said:
        params = asked.params
        if asked.path != "/api.php" or params.get("action") != "query":
            return 404, b"<html>Not found</html>", {}
        if "Retinue/" not in asked.headers.get("User-Agent", ""):
            return 403, b"Please set a user-agent and respect our robot policy", {}
        head = {"batchcomplete": True}
        if params.get("gsrwhat") == "nearmatch":
            page = self._near(params["gsrsearch"])
            return 200, head if page is None else {**head, "query": {"pages": [page]}}, {}
        if not params.get("srsearch"):
            error = {"code": "missingparam", "info": 'The "srsearch" parameter must be set.', "docref": "See …"}
            return 200, {"error": error, "servedby": "mw1"}, {}
        words = params["srsearch"].strip("[]").lower().split()
        titles = [
            title for title, text in self.pages.items() if any(word in f"{title} {text}".lower() for word in words)
        ]
        found = [{"ns": 0, "title": title, "pageid": at} for at, title in enumerate(titles[: int(params["srlimit"])])]
        return 200, {**head, "query": {"search": found}}, {}

    def _near(self, words: str) -> dict[str, Any] | None:
        title = next((one for one in [*self.pages, *self.redirects] if one.lower() == words.lower()), None)
        if title is None:
            return None
        title = self.redirects.get(title, title)
        link = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
        page = {"pageid": 1, "ns": 0, "title": title, "index": 1, "extract": self.pages[title], "fullurl": link}
        return page | ({"pageprops": {"disambiguation": ""}} if title in self.ambiguous else {})
