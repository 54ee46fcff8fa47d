"""The embedded model behind an entity memory: part of the conversation of `make memory`."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.memory import MAX_TOKENS, STALE, talk, turns

from retinue.memory.stored_memory import count_tokens

PART = (0, 3, 4, 5, 9, 10, 15, 24)  # of the turns; the others are in `make memory`


@pytest.mark.model
@pytest.mark.long
def test_a_small_model_finds_people_places_and_facts_and_what_is_outdated(embedded_model: Path) -> None:
    held = talk([turns()[at] for at in PART], ["Where do I live?", "How is Tom?"])
    expected = [
        ("User", "Maya"), ("User", "Boston"), ("User", "peanuts"), ("Tom", "brother"), ("Tom", "doctor"),
        ("Tom", "Edinburgh"), ("Biscuit", "beagle"), ("Hana", "cello"),
    ]  # fmt: skip
    assert [(name, words) for name, words in expected if not held.has(name, words)] == []
    assert not held.has(*STALE[0])
    assert any("New York" in fact for fact in held.outdated["User"])
    assert all(
        count_tokens(recalled) <= MAX_TOKENS and "New York" not in recalled for recalled in held.recalled.values()
    )
    assert held.recalled["How is Tom?"].startswith("Tom (person): ")
