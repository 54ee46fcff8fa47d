"""Thirty turns with the embedded model behind the memory: the right people, places and facts, and no stale ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue import Agent, PromptModel
from retinue.memory import Entity, EntityMemory
from retinue.memory.turns import tokens
from retinue.tools import calculator

TALK = [
    ("Hi! My name is Maya, and I'm currently in New York.", "Hello Maya! How is New York today?"),
    ("Busy as always. I work as a data engineer at Nordwind Analytics.", "That sounds like interesting work."),
    ("My manager there is Priya Raman. She comes from Chennai.", "It is good to have a manager one likes."),
    ("What is 15% of 80?", "It is 12."),
    ("I have a dog, a beagle called Biscuit.", "Beagles are lovely dogs."),
    ("My brother Tom is a doctor in Leeds.", "You must be proud of him."),
    ("He is married to Elena. She teaches chemistry at a school.", "A family of scientists!"),
    ("Did Elon Musk found SpaceX?", "Yes, Elon Musk founded SpaceX in 2002."),
    ("I'm learning Portuguese, because I will travel to Lisbon in May.", "Boa viagem!"),
    ("By the way, I'm allergic to peanuts.", "I will keep that in mind."),
    ("My best friend Hana plays the cello.", "What a warm instrument."),
    ("Which planet is the largest?", "Jupiter is the largest planet."),
    ("Tom's birthday is on 3 March.", "I have noted it."),
    ("Hana lives in Kyoto now, so we only talk on the phone.", "Kyoto is far away."),
    ("Can you recommend a book?", "Try The Old Man and the Sea."),
    ("Big news: I've moved to Boston!", "Congratulations on the move!"),
    ("And I left Nordwind Analytics. I now work at Bluefin Robotics.", "A new city and a new job."),
    ("My new manager is Omar Haddad.", "I hope he is kind."),
    ("How do I boil an egg?", "Seven minutes in boiling water."),
    (
        "I had to put off my trip: I will travel to Lisbon in September, not in May.",
        "September is a good month for Lisbon.",
    ),
    ("Biscuit is four years old today.", "Happy birthday, Biscuit!"),
    ("Elena expects a baby in August.", "How wonderful!"),
    ("My neighbour Viktor Novak repairs old clocks.", "A rare craft."),
    ("What is the capital of Portugal?", "The capital of Portugal is Lisbon."),
    ("Tom has moved from Leeds to Edinburgh.", "Edinburgh is beautiful."),
    ("My sister Lucia studies law in Madrid.", "She must be busy."),
    ("I usually run along the Charles River in the morning.", "A fine way to begin a day."),
    ("Write me a short poem about rain.", "Rain on the roof, a quiet drum."),
    ("Omar comes from Cairo and likes chess.", "Perhaps you can play a game."),
    ("Thank you, that is all for today.", "Goodbye, Maya!"),
]
EXPECTED = {  # by whom it is about: words that must stand in one fact each
    "User": ["Maya", "Boston", "Bluefin", "peanuts", "Portuguese", "September"],
    "Tom": ["brother", "doctor", "Edinburgh", "March"],
    "Elena": ["chemistry", "baby"],
    "Hana": ["cello", "Kyoto"],
    "Priya": ["manager", "Chennai"],
    "Omar": ["manager", "Cairo", "chess"],
    "Biscuit": ["beagle", "four"],
    "Viktor": ["clocks"],
    "Lucia": ["sister", "Madrid"],
}
MAX_TOKENS = 400


@pytest.mark.model
def test_thirty_turns_leave_the_right_facts(embedded_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "people.json"
    memory = EntityMemory("local", every=5, max_tokens=MAX_TOKENS, path=path)
    for question, answer in TALK:
        agent = Agent(PromptModel(script=[{"finish": answer}]), [calculator], memory=memory)
        assert agent.run(question).answer == answer
    memory.settled()
    known = {entity.name.split()[0]: entity for entity in EntityMemory("local", path=path).entities}
    facts = [(name, word) for name, words in EXPECTED.items() for word in words]
    missing = [(name, word) for name, word in facts if not _holds(known, name, word)]
    assert len(facts) - len(missing) >= 0.8 * len(facts), missing
    assert {("User", "Boston"), ("User", "Bluefin"), ("Tom", "Edinburgh")}.isdisjoint(missing)
    assert not _holds(known, "User", "New York")
    assert any("New York" in fact.fact and fact.until for fact in known["User"].facts)
    assert not _holds(known, "User", "Lisbon in May") or _holds(known, "User", "not travel to Lisbon in May")
    for question in ("Where do I live?", "How is Tom?", "Who is Viktor?"):
        recalled = asyncio.run(memory.recall(question)).facts
        assert tokens(recalled) <= MAX_TOKENS
        assert "New York" not in recalled
    assert recalled.startswith("Viktor")


def _holds(known: dict[str, Entity], name: str, words: str) -> bool:
    return name in known and any(words in fact.fact for fact in known[name].holding)
