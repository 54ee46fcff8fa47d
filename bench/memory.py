"""Entity memory over a conversation of thirty turns, the embedded model behind it: who and what it knows at the end.

`python -m bench.memory` (`make memory`) takes two minutes on two cores; the suite has a shorter one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click

from bench.report import replace_section
from retinue import Agent, EntityMemory, PromptModel
from retinue.memory.stored_memory import count_tokens
from retinue.tools import calculator

ROOT = Path(__file__).parents[1]
MAX_TOKENS = 400
EXPECTED: Mapping[str, Sequence[str]] = {  # by whom it is about: words that must stand in a fact that holds
    "User": ["Maya", "Boston", "Bluefin", "peanuts", "Portuguese", "Lisbon in September"],
    "Tom": ["brother", "doctor", "Edinburgh", "3 March"],
    "Elena": ["chemistry", "baby"],
    "Hana": ["cello", "Kyoto"],
    "Priya": ["manager", "Chennai"],
    "Omar": ["manager", "Cairo", "chess"],
    "Biscuit": ["beagle", "four"],
    "Viktor": ["clocks"],
    "Lucia": ["sister", "Madrid"],
}
STALE = (("User", "New York"), ("User", "will travel to Lisbon in May"))


@dataclass(frozen=True, slots=True)
class Held:
    """What a conversation left: the facts by name, the outdated ones, what was recalled, and how long it took."""

    facts: Mapping[str, Sequence[str]]
    outdated: Mapping[str, Sequence[str]]
    recalled: Mapping[str, str]
    seconds: float

    def has(self, name: str, words: str) -> bool:
        """Whether a fact that holds has these words."""
        return any(words in fact for fact in self.facts.get(name, ()))


def turns() -> list[tuple[str, str]]:
    """The conversation: what the user says, and what is answered."""
    lines = (ROOT / "data" / "memory" / "turns.jsonl").read_text(encoding="utf-8").splitlines()
    return [(turn["question"], turn["answer"]) for turn in map(json.loads, lines)]


def talk(said: Sequence[tuple[str, str]], questions: Sequence[str]) -> Held:
    """Have the conversation, with an agent that answers from a script and a memory with the embedded model."""
    began = time.perf_counter()
    memory = EntityMemory("local", every=5, max_tokens=MAX_TOKENS)
    for question, answer in said:
        Agent(PromptModel(script=[{"finish": answer}]), [calculator], memory=memory).run(question)
    memory.settled()
    seconds = time.perf_counter() - began
    recalled = {question: asyncio.run(memory.recall(question)).facts for question in questions}
    known = {entity.name.split()[0]: entity for entity in memory.entities}
    facts = {name: [fact.fact for fact in entity.holding] for name, entity in known.items()}
    outdated = {name: [fact.fact for fact in entity.facts if fact.until] for name, entity in known.items()}
    return Held(facts, outdated, recalled, seconds)


def measure() -> str:
    """The section for RESULTS.md."""
    held = talk(turns(), ("Where do I live?", "How is Tom?", "Plan my week"))
    wanted = [(name, words) for name, facts in EXPECTED.items() for words in facts]
    missing = [f"{name}: {words}" for name, words in wanted if not held.has(name, words)]
    stale = [f"{name}: {words}" for name, words in STALE if held.has(name, words)]
    rows = [
        ("expected facts that it holds", f"{len(wanted) - len(missing)} of {len(wanted)}"),
        ("missing", "; ".join(missing) or "none"),
        ("stale facts that it still holds", "; ".join(stale) or f"none of {len(STALE)}"),
        ("all facts that it holds", str(sum(map(len, held.facts.values())))),
        ("the most tokens recalled (estimated)", f"{max(map(count_tokens, held.recalled.values()))} of {MAX_TOKENS}"),
        ("seconds for thirty turns", f"{held.seconds:.0f}"),
    ]
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    known = "\n".join(f"- {name}: {'; '.join(facts)}" for name, facts in held.facts.items())
    return f"{table}\n\n{known}\n"


if __name__ == "__main__":
    section = f"`python -m bench.memory`, {date.today().isoformat()}.\n\n{measure()}"
    click.echo(section)
    replace_section(ROOT / "bench" / "RESULTS.md", "memory", section)
