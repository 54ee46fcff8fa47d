"""Small services as components: Python in a sandbox, currencies, weather, a Haystack and a deepset Cloud pipeline.

    python examples/services.py

runs without a network: the services are the tests' stand-ins on this machine. For the real ones leave out base_url and
endpoint; currencies (frankfurter.dev) and weather (open-meteo.com) need no key, deepset Cloud reads
DEEPSET_CLOUD_API_KEY.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the stand-ins are

from fakes.free_services import FrankfurterServer, OpenMeteoServer
from fakes.haystack_server import KEY, HaystackServer, answer
from retinue import Pipeline, PromptModel
from retinue.components import (
    CurrencyConverter,
    DeepsetCloudPipeline,
    HaystackPipeline,
    PromptNode,
    PythonRuntime,
    Weather,
)


def main() -> None:
    """Ask each of them once."""
    calculator = Pipeline()
    model = PromptModel(script=["final_result = 47 ** 0.23"])
    calculator.add_node(PromptNode(model, "Write Python: $query", output_variable="python_runtime_input"))
    calculator.add_node(PythonRuntime())
    print("47^0.23 is", calculator.run("47^0.23")["results"])
    with FrankfurterServer() as rates, OpenMeteoServer() as weather, HaystackServer() as haystack:
        print(CurrencyConverter(base_url=rates.url).run("100 EUR in USD")["results"])
        print(Weather(base_url=weather.url, geocoding_url=weather.url).run("Berlin")["results"])
        question = "Who uses Haystack?"
        haystack.found[question] = {"answers": [answer("Airbus, Netflix and others")]}
        print(HaystackPipeline(haystack.url).run(question)["results"])
        cloud = DeepsetCloudPipeline("docs", api_key=KEY, endpoint=f"{haystack.url}/api/v1")
        print(cloud.run(question)["results"])


if __name__ == "__main__":
    main()
