"""What a memory caught up with, while turns came to it elsewhere."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from retinue import ConversationMemory, DataError, EntityMemory, PromptModel

SAID = '[["User", "person", "lives in Lima", "home"]]'


def summarizing() -> ConversationMemory:
    model = PromptModel(script=[{"raw": '{"summary": "They met."}'}])
    return ConversationMemory(window=2, summary=model)


def extracting() -> EntityMemory:
    return EntityMemory(PromptModel(script=[{"raw": SAID}]), every=1)


@given(st.integers(3, 8), st.integers(0, 4))
def test_no_turn_is_lost_and_none_is_summarized_twice(before: int, more: int) -> None:
    template = summarizing()
    memory = template.with_state(None)
    for at in range(before):
        memory.note(f"question {at}", "answer")
    began = memory.dump()
    elsewhere = template.with_state(began)
    for at in range(before, before + more):
        elsewhere.note(f"question {at}", "answer")
    while memory.is_due():
        asyncio.run(memory.catch_up())
    there = memory.rebase(began, elsewhere.dump())
    assert there is not None
    assert there.summary == "They met."
    kept = [turn.question for turn in there.turns]
    assert kept == [f"question {at}" for at in range(before - 2, before + more)]


def test_what_two_have_caught_up_with_counts_once() -> None:
    for template in (summarizing(), extracting()):
        memory = template.with_state(None)
        for at in range(4):
            memory.note(f"I live in Lima {at}.", "answer")
        began = memory.dump()
        other = template.with_state(began)
        for one in (memory, other):
            asyncio.run(one.catch_up())
        first = memory.rebase(began, began)
        assert first is not None
        assert other.rebase(began, first.dump()) is None


def test_an_entity_is_found_beside_new_turns() -> None:
    template = extracting()
    memory = template.with_state(None)
    memory.note("I live in Lima.", "Fine.")
    began = memory.dump()
    elsewhere = template.with_state(began)
    elsewhere.note("And you?", "Here.")
    asyncio.run(memory.catch_up())
    there = memory.rebase(began, elsewhere.dump())
    assert there is not None
    assert there.entities[0].facts[0].fact == "lives in Lima"
    assert there.is_due()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"retinue": 1, "memory": "Entities"}', "[" * 100_000])
def test_other_states_are_refused(text: str) -> None:
    with pytest.raises(DataError):
        summarizing().with_state(text)
