"""`Weather`: current and today's weather at a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from ..core.component import QueryComponent
from ..errors import ToolError
from ..net.service_client import Service, ServiceRequest, ask_service, check_query, parse_json_object
from .web_search import read_text

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


class Reported(TypedDict):
    """The outputs of `Weather`: `results`, the text for a model; and the values `now` and `today` with their units, by
    Open-Meteo's names.
    """

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
        place = await self._find_place(check_query(query, "place"))
        where = {key: str(place[key]) for key in ("latitude", "longitude")}
        params = {**where, "current": _NOW, "daily": _TODAY, "timezone": "auto", "forecast_days": "1"}
        given = parse_json_object(
            self._forecast, (await ask_service(self._forecast, ServiceRequest("/forecast", params))).body, "a forecast"
        )
        now, today = _read_values(given, "current"), _read_values(given, "daily")
        if "temperature_2m" not in now:
            raise ToolError("Open-Meteo answered with something that is not the JSON of a forecast")
        return {"results": _format_report(place, now, today), "now": now, "today": today}

    async def _find_place(self, name: str) -> Mapping[str, Any]:
        params = {"name": name, "count": "1", "language": "en", "format": "json"}
        body = parse_json_object(
            self._geocoding, (await ask_service(self._geocoding, ServiceRequest("/search", params))).body, "places"
        )
        places = body.get("results")
        place = places[0] if isinstance(places, list) and places else None
        if not isinstance(place, Mapping) or not all(
            isinstance(place.get(key), int | float) for key in ("latitude", "longitude")
        ):
            raise ToolError(
                f"no place called {name[:80]!r} is known; give the name of a town alone, or another one near"
            )
        return place


def _read_values(given: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return the values of a part of a forecast with their units; of daily values, the first."""
    values, units = given.get(part), given.get(f"{part}_units")
    found: dict[str, str] = {}
    for key, value in values.items() if isinstance(values, Mapping) else ():
        first = value[0] if isinstance(value, list) and value else value
        if key == "weather_code":
            found[key] = _CODES.get(first if isinstance(first, int) else None, "")
        elif read_text(first):
            unit = read_text(units.get(key)) if isinstance(units, Mapping) and key not in ("time", "interval") else ""
            found[str(key)] = f"{read_text(first)}{'' if unit.startswith(('°', '%')) else ' '}{unit}".strip()
    return found


def _format_report(place: Mapping[str, Any], now: Mapping[str, str], today: Mapping[str, str]) -> str:
    where = ", ".join(filter(None, (read_text(place.get(key)) for key in ("name", "admin1", "country"))))
    current = [now.get("weather_code", ""), now["temperature_2m"]]
    current += [
        f"{label} {now[key]}"
        for key, label in (("relative_humidity_2m", "humidity"), ("wind_speed_10m", "wind"))
        if key in now
    ]
    day = [today.get("weather_code", "")]
    if "temperature_2m_min" in today and "temperature_2m_max" in today:
        day.append(f"{today['temperature_2m_min']} to {today['temperature_2m_max']}")
    if "precipitation_sum" in today:
        chance = today.get("precipitation_probability_max", "")
        day.append(f"precipitation {today['precipitation_sum']}" + (f" (chance {chance})" if chance else ""))
    said = f"{where}, {now.get('time', 'now')}: {', '.join(filter(None, current))}."
    return f"{said} Today: {', '.join(filter(None, day))}." if any(day) else said
