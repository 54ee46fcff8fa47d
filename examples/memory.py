"""A conversation that an agent remembers: who and what it was about, also after a restart.

Runs offline, with scripts in place of models. For real ones say `PromptModel("local")`, or any other, for both.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from retinue import Agent, ConversationMemory, EntityMemory, PromptModel
from retinue.extend import EntityExtractor, EntitySummarizer
from retinue.tools import calculator

TALKER = PromptModel(
    script=[
        {"when": "where do I live", "finish": "You live in Boston."},
        {"finish": "I see."},
    ]
)
READER = PromptModel(
    script=[
        {"when": r"New York[^\n]*\nFacts:\Z", "raw": json.dumps([["User", "person", "lives in New York", "home"]])},
        {"when": r"Greta[^\n]*\nFacts:\Z", "raw": json.dumps([["Greta", "person", "plays the cello", "likes"]])},
        {"when": r"Boston[^\n]*\nFacts:\Z", "raw": json.dumps([["User", "person", "has moved to Boston", "home"]])},
        {"when": "Old says:\\Z", "raw": " where they live. New says: where they live. -> outdated"},
        {"raw": "[]"},
    ]
)
SAID = ("I live in New York.", "My friend Greta plays the cello.", "I have moved to Boston!")


def main() -> None:
    """Talk, stop, and go on."""
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(TALKER, [calculator])
        people = EntityMemory(READER, path=Path(folder) / "people.json")
        talking = agent.with_memory([ConversationMemory(window=2), people])
        for said in SAID:
            print("user:", said)
            print("agent:", talking.run(said).answer)
        people.settled()

        people = EntityMemory(READER, path=Path(folder) / "people.json")  # as after a restart
        for entity in people.entities:
            for fact in entity.facts:
                until = f", until turn {fact.until}" if fact.until else ""
                print(f"known: {entity.name}: {fact.fact} (since turn {fact.since}{until})")
        print("agent:", agent.with_memory(people).run("And where do I live now?").answer)

        found = EntityExtractor(READER).run("user: My friend Greta plays the cello.")["entities"]  # the parts, alone
        summarizer = EntitySummarizer(PromptModel(script=[{"raw": '{"summary": "Greta, a friend, plays the cello."}'}]))
        print("summary:", summarizer.run(found)["entities"][0]["summary"])


if __name__ == "__main__":
    main()
