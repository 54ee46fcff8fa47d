"""What a client saw of a model that thinks, as JSON: by each API, whole and streamed, asking for thoughts and not."""

import json
import os
from collections.abc import Callable

URL, KEY = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
QUESTIONS = "How is it?", "And now?"  # the second with all that was said before
WEATHER = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}


def get_weather(location: str) -> str:
    """The weather of a city."""
    return "rain"


def tell(ask: Callable[[str, bool, bool], tuple[list[str], str]]) -> None:
    """Print the answers that `ask(api, streamed, asks)` returned, and whether it saw thoughts."""
    seen = {}
    for api in ("chat", "responses"):
        for streamed in (False, True):
            for asks in (False, True):
                answers, thoughts = ask(api, streamed, asks)
                name = f"{api} {'streamed' if streamed else 'whole'} {'asks' if asks else 'silent'}"
                seen[name] = [*answers, "Thought" in thoughts]
    print(json.dumps(seen))
