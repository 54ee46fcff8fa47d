"""A question that takes Wikipedia's `search` and `lookup`, as in the ReAct paper, and the weather and money with it.

    python examples/wikipedia.py

runs without a network: the model is a script, and the services are the tests' stand-ins on this machine. For the real
ones, give the agent a model and leave out the addresses; none of the three needs a key:

    Agent("local", [*Wikipedia(contact="you@example.com").tools(), Tool("weather", Weather(), effects="read")])
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the stand-ins are

from fakes.free_services import FrankfurterServer, MediaWikiServer, OpenMeteoServer
from retinue import Agent, PromptModel, Tool
from retinue.components import CurrencyConverter, Weather, Wikipedia

PAGES = {
    "Brandenburg Gate": "The Brandenburg Gate is a monument in Berlin. It was built by order of Frederick William II. "
    "It is one of the best-known landmarks of Germany.\n== Cost ==\nRestoring it cost six million euros in 2002.",
    "Gate": "Gate may refer to:\nBrandenburg Gate\nLogic gate",
}
SCRIPT = [
    {"when": "What did", "call": {"tool": "search", "input": "Gate"}},
    {"when": "Could not find .Gate.", "call": {"tool": "search", "input": "Brandenburg Gate"}},
    {"when": "is a monument", "call": {"tool": "lookup", "input": "million"}},
    {
        "when": "Result 1 / 1",
        "call": {"tool": "convert", "input": {"amount": 6_000_000, "source": "EUR", "target": "USD"}},
    },
    {"when": "EUR = ", "call": {"tool": "weather", "input": "Berlin"}},
    {"when": "Berlin, ", "finish": "6.28 million dollars. It is partly cloudy in Berlin, and rain is to come."},
]
QUESTION = "What did it cost in dollars to restore the Gate, and do I need an umbrella there today?"


def main() -> None:
    """Ask it."""
    with MediaWikiServer(PAGES) as wiki, OpenMeteoServer() as meteo, FrankfurterServer() as frankfurter:
        weather = Weather(base_url=meteo.url, geocoding_url=meteo.url)
        tools = [
            *Wikipedia(base_url=wiki.url).tools(),
            Tool("convert", CurrencyConverter(base_url=frankfurter.url), effects="read"),
            Tool("weather", weather, effects="read"),
        ]
        print(Agent(PromptModel(script=SCRIPT), tools).run(QUESTION).transcript.partition("Begin!\n")[2])


if __name__ == "__main__":
    main()
