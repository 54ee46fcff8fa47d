"""A conversation that is longer than its window, with the embedded model: which facts and orders of the user are still
known at its end. `python -m bench.long_conversation --turns 60 --window 2000` writes a table to standard output, for
bench/RESULTS.md; about a quarter of an hour on idle cores."""

from __future__ import annotations

import argparse
import random
from dataclasses import replace

from retinue import Agent, Message, PromptModel
from retinue.core.events import Compacted
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities

NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fred", "Gina", "Hans", "Ines", "Jost")
ORDERS = ("Never email customers.", "Call me Kim.", "Do not touch the folder /srv.")


class Narrow:
    """The embedded model, which says that its window is smaller than it is."""

    name = "embedded"

    def __init__(self, window: int) -> None:
        self._inner, self._window = PromptModel(), window

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return those of the model, but for the window."""
        return replace(await self._inner.abilities(native=native), window=self._window)

    def reply(self, request: Ask) -> Chunks:
        """Return the model's reply."""
        return self._inner.reply(request)


def main() -> None:
    """Have the conversation, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--window", type=int, default=2_000)
    given = parser.parse_args()
    draw = random.Random(1)
    years = {name: draw.randrange(1950, 2010) for name in NAMES}
    said = [
        f"Tell me in one sentence about {draw.choice(['rain', 'bread', 'trains', 'stars'])}."
        for _ in range(given.turns)
    ]
    texts = [*(f"{name} was born in {year}. Say ok." for name, year in years.items()), *ORDERS]
    for at, text in zip(draw.sample(range(given.turns * 3 // 4), len(texts)), texts, strict=True):
        said[at] = text
    agent, history = Agent(Narrow(given.window)), list[Message]()
    tiers: list[str] = []
    pinned: tuple[str, ...] = ()
    known = dict.fromkeys(NAMES, False)
    for text in [*said, *(f"In which year was {name} born? Only the year." for name in NAMES)]:
        result = agent.run(text, history=history)
        history += [Message("user", text), Message("assistant", result.text)]
        for event in result.events:
            if isinstance(event, Compacted):
                tiers += [event.tier] * bool(event.usage)  # and not what an earlier run found out
                pinned = event.pinned if event.tier == "summary" else pinned
        for name in NAMES:
            if text.startswith(f"In which year was {name} "):
                known[name] = str(years[name]) in result.text
    print("| turns | window | facts answered | orders pinned | summaries made |\n|---|---|---|---|---|")
    orders = sum(any(order in quote for quote in pinned) for order in ORDERS)
    found = [f"{sum(known.values())} of 10", f"{orders} of 3", tiers.count("summary")]
    print("|", " | ".join(map(str, [given.turns, given.window, *found])), "|")


if __name__ == "__main__":
    main()
