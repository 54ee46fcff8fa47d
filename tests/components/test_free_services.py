"""`CurrencyConverter` and `Weather` against servers that speak Frankfurter's and Open-Meteo's JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.free_services import FORECAST, FrankfurterServer, OpenMeteoServer
from retinue import Agent, Pipeline, PromptModel, Tool, ToolError
from retinue.components import CurrencyConverter, Weather
from retinue.config import check


@pytest.fixture
def frankfurter() -> Iterator[FrankfurterServer]:
    with FrankfurterServer() as server:
        yield server


@pytest.fixture
def meteo() -> Iterator[OpenMeteoServer]:
    with OpenMeteoServer() as server:
        yield server


def weather(server: OpenMeteoServer, **settings: Any) -> Weather:
    return Weather(**{"base_url": server.url, "geocoding_url": server.url} | settings)


# ── currency ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("100 EUR in USD", "100.00 EUR = 104.65 USD (rate 1.0465 of 2024-11-25)"),
        ("1,250.50 usd to gbp", "1,250.50 USD = 995.97 GBP (rate 0.79646 of 2024-11-25)"),
        ("EUR = GBP?", "1.00 EUR = 0.83 GBP (rate 0.8335 of 2024-11-25)"),
        ("5 EUR in EUR", "5.00 EUR = 5.00 EUR"),
    ],
)
def test_money_is_converted(frankfurter: FrankfurterServer, query: str, said: str) -> None:
    assert CurrencyConverter(base_url=frankfurter.url).run(query)["results"] == said


def test_a_model_gives_amount_and_currencies(frankfurter: FrankfurterServer, tmp_path: Path) -> None:
    tool = Tool("convert", CurrencyConverter(base_url=frankfurter.url), effects="read")
    assert tool.signature.parameters["required"] == ["amount", "source", "target"]
    assert tool.signature.parameters["properties"]["amount"]["type"] == "number"
    assert tool.description == "Convert an amount of money from one currency to another."
    arguments = {"amount": 0.1, "source": "eur", "target": "USD"}
    assert asyncio.run(tool.call(arguments)) == "0.10 EUR = 0.10 USD (rate 1.0465 of 2024-11-25)"
    agent = Agent(
        PromptModel(script=[{"when": "much", "call": {"tool": "convert", "input": arguments}}, {"finish": "x"}]), [tool]
    )
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert again.run("How much?").steps[0].observations[0].text.startswith("0.10 EUR = 0.10 USD")
    pipeline = Pipeline()
    pipeline.add_node(CurrencyConverter(base_url=frankfurter.url), "Money", ["Query"])
    assert pipeline.run("100 EUR in USD")["amount"] == 104.65


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("100 EUR in XXX", "404: not found"),
        ("a hundred euros", "want an amount and two currencies, as in 100 EUR in USD"),
        ("", "the query is empty"),
    ],
)
def test_what_cannot_be_converted(frankfurter: FrankfurterServer, query: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        CurrencyConverter(base_url=frankfurter.url).run(query)


@pytest.mark.parametrize("amount", [float("nan"), float("inf")])
def test_amounts_that_are_none(frankfurter: FrankfurterServer, amount: float) -> None:
    with pytest.raises(ToolError, match="the amount is not a number"):
        asyncio.run(CurrencyConverter(base_url=frankfurter.url).convert(amount, "EUR", "USD"))
    with pytest.raises(ToolError, match="want a currency as an ISO code"):
        asyncio.run(CurrencyConverter(base_url=frankfurter.url).convert(1, "€", "USD"))


@pytest.mark.parametrize(
    "body", [{}, {"rates": 5}, {"rates": {"USD": "1"}}, {"rates": {"USD": True}}, {"rates": {"USD": 0}}]
)
def test_odd_rates(frankfurter: FrankfurterServer, body: Any) -> None:
    frankfurter.instead += [(200, body, {})]
    with pytest.raises(ToolError, match="there is no rate from EUR to USD"):
        CurrencyConverter(base_url=frankfurter.url).run("1 EUR in USD")


def test_a_service_that_asks_for_a_pause(frankfurter: FrankfurterServer) -> None:
    frankfurter.instead += [(429, {}, {"Retry-After": "0"}), (503, b"", {"Retry-After": "0"})]
    assert CurrencyConverter(base_url=frankfurter.url).run("1 EUR in USD")["rate"] == 1.0465
    frankfurter.instead += [(503, b"", {"Retry-After": "30"})]
    with pytest.raises(ToolError, match="try again in 30 seconds"):
        CurrencyConverter(base_url=frankfurter.url).run("1 EUR in USD")


# ── weather ──────────────────────────────────────────────────────────────────────────────────────

SAID = (
    "Berlin, State of Berlin, Germany, 2024-11-25T14:15: partly cloudy, 13.1°C, humidity 70%, wind 18.4 km/h. "
    "Today: slight rain, 9.0°C to 14.9°C, precipitation 1.2 mm (chance 45%)."
)


def test_the_weather_at_a_place(meteo: OpenMeteoServer) -> None:
    found = weather(meteo).run(" berlin ")
    assert found["results"] == SAID
    assert (found["now"]["wind_speed_10m"], found["today"]["precipitation_sum"]) == ("18.4 km/h", "1.2 mm")
    assert [asked.path for asked in meteo.asked] == ["/search", "/forecast"]
    assert meteo.asked[1].params["latitude"] == "52.52437"
    assert [one["results"] for one in weather(meteo).run_batch(["Berlin", "berlin"])] == [SAID, SAID]


def test_the_weather_in_a_pipeline_as_a_tool_and_in_a_file(meteo: OpenMeteoServer, tmp_path: Path) -> None:
    pipeline = Pipeline(name="outside")
    pipeline.add_node(weather(meteo), "Sky", ["Query"])
    assert pipeline.run("Berlin")["results"] == SAID
    assert asyncio.run(Tool("Weather", weather(meteo)).call("Berlin")) == SAID
    agent = Agent(
        PromptModel(script=[{"when": "like", "call": {"tool": "Weather", "input": "Berlin"}}, {"finish": "x"}])
    )
    agent.add_tool("Weather", weather(meteo, seconds=5.0), "the weather at a place")
    agent.add_tool("Outside", pipeline, "the same")
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert again.run("What is it like?").steps[0].observations[0].text == SAID
    assert again.tools[0].something.given["seconds"] == 5.0


def test_places_and_forecasts_that_are_not_there(meteo: OpenMeteoServer) -> None:
    with pytest.raises(ToolError, match="no place called 'Atlantis' is known"):
        weather(meteo).run("Atlantis")
    meteo.places["nowhere"] = {"name": "Nowhere", "latitude": 91, "longitude": 0}
    with pytest.raises(ToolError, match="400: Latitude must be in range"):
        weather(meteo).run("Nowhere")
    meteo.places["odd"] = {"name": "Odd", "latitude": "91"}
    with pytest.raises(ToolError, match="no place called 'Odd'"):
        weather(meteo).run("Odd")


@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        ({"current": {"temperature_2m": 3}}, "Berlin, State of Berlin, Germany, now: 3."),
        ({**FORECAST, "daily": 5, "current_units": None}, "partly cloudy, 13.1, humidity 70, wind 18.4."),
        ({**FORECAST, "daily": {"weather_code": []}}, "wind 18.4 km/h."),
        ({**FORECAST, "current": {"temperature_2m": 1, "weather_code": {}}}, "now: 1°C. Today: slight rain"),
    ],
)
def test_what_is_missing_is_left_out(meteo: OpenMeteoServer, forecast: Any, said: str) -> None:
    meteo.forecast = forecast
    assert said in weather(meteo).run("Berlin")["results"]


@pytest.mark.parametrize("forecast", [[], {}, {"current": 5}, {"current": {"temperature_2m": None}}])
def test_what_is_no_forecast(meteo: OpenMeteoServer, forecast: Any) -> None:
    meteo.forecast = forecast
    with pytest.raises(ToolError, match="not the JSON of a forecast"):
        weather(meteo).run("Berlin")
