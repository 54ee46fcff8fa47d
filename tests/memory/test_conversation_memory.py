"""The last turns of a conversation, and a summary of those before."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import pytest

from fakes.memories import Replying
from retinue import UsageError
from retinue.components import PromptNode
from retinue.core.protocols import Recalled
from retinue.memory import ConversationMemory, EntityMemory
from retinue.memory.stored_memory import count_tokens


def talk(memory: ConversationMemory, *questions: str, answer: str = "Yes.") -> None:
    async def all_of_it() -> None:
        for question in questions:
            await memory.remember(question, answer)

    asyncio.run(all_of_it())


def recalled(memory: ConversationMemory) -> Recalled:
    return asyncio.run(memory.recall("anything"))


def asked(found: Recalled) -> list[str]:
    return [message.content for message in found.history if message.role == "user"]


def test_the_last_turns_are_recalled_in_their_order() -> None:
    memory = ConversationMemory(window=2)
    talk(memory, "one", "two", "three")
    assert [(m.role, m.content) for m in recalled(memory).history] == [
        ("user", "two"), ("assistant", "Yes."), ("user", "three"), ("assistant", "Yes."),
    ]  # fmt: skip
    assert len(memory.turns) == 2


@pytest.mark.parametrize("text", ["four words of text", "vier Wörter Deutsch, größer", "東京に住んでいます", "🎻" * 10])
def test_what_is_recalled_stays_within_its_tokens(text: str) -> None:
    memory = ConversationMemory(window=50, max_tokens=100)
    talk(memory, *[f"{number} {text}" for number in range(30)])
    found = recalled(memory)
    assert asked(found)[-1].startswith("29 ")
    assert 50 <= sum(count_tokens(message.content) for message in found.history) <= 100
    talk(memory, f"begin {text * 500} end")
    found = recalled(memory)
    assert asked(found)[0].startswith("begin")
    assert asked(found)[0].endswith("end")
    assert sum(count_tokens(message.content) for message in found.history) <= 100


def counting(prompt: str) -> str:
    """A summary of all words that the former one and the new lines have."""
    former, lines = prompt.rpartition("Old summary: ")[2].split("\n", 1)
    said = re.findall(r"^User: (\w+)", lines, re.MULTILINE)
    return json.dumps({"summary": " ".join([*([] if former == "(none)" else [former]), *said])})


def test_what_falls_out_of_the_window_is_in_the_summary_which_is_made_anew_each_time() -> None:
    model = Replying(counting)
    memory = ConversationMemory(window=2, summary=model)
    for question in ("one", "two", "three", "four", "five"):
        talk(memory, question)
        memory.settled()
    assert (memory.summary, asked(recalled(memory))) == ("one two three", ["four", "five"])
    assert recalled(memory).facts == "What was said before: one two three"
    assert len(model.asked) == 3
    assert "Old summary: one two\n" in model.asked[-1]


def test_a_turn_is_there_as_it_is_until_it_is_in_the_summary() -> None:
    model = Replying(counting)
    model.gate.clear()
    memory = ConversationMemory(window=1, summary=model)
    talk(memory, "one", "two", "three")
    assert (memory.summary, asked(recalled(memory))) == ("", ["one", "two", "three"])
    model.gate.set()
    memory.settled()
    assert (memory.summary, asked(recalled(memory))) == ("one two", ["three"])


def test_a_summary_has_its_own_share_of_the_tokens() -> None:
    memory = ConversationMemory(
        window=1, max_tokens=80, summary=Replying(lambda _: '{"summary": "%s"}' % ("word " * 99))
    )
    talk(memory, "one", "two")
    memory.settled()
    found = recalled(memory)
    assert 10 <= count_tokens(memory.summary) <= 20
    assert count_tokens(found.facts) + sum(count_tokens(message.content) for message in found.history) <= 80


def test_a_model_that_fails_is_logged_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = Replying(counting)
    model.down = True
    memory = ConversationMemory(window=1, summary=model)
    with caplog.at_level(logging.WARNING):
        talk(memory, "one", "two")
        memory.settled()
    assert "the summary was not brought up to date: the model is down" in caplog.text
    assert asked(recalled(memory)) == ["one", "two"]
    model.down = False
    memory.settled()
    assert (memory.summary, asked(recalled(memory))) == ("one", ["two"])


def test_the_summary_may_have_a_prompt_node_of_its_own() -> None:
    model = Replying(lambda prompt: '{"summary": "short"}')
    node = PromptNode(model, "Mine: $summary, $conversation")
    memory = ConversationMemory(window=1, summary=node)
    talk(memory, "one", "two")
    memory.settled()
    assert model.asked == ["Mine: (none), User: one\nAssistant: Yes.\n"]


@pytest.mark.parametrize("wrong", [{"window": 0}, {"max_tokens": 10}])
def test_what_cannot_work_is_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least"):
        ConversationMemory(**wrong)  # type: ignore[arg-type]


def test_the_oldest_turns_are_dropped_when_it_has_to_shrink() -> None:
    long = "\U0001f642" * 1_000
    for memory in (ConversationMemory(window=1_000), EntityMemory(Replying(lambda _: "[]"), every=1_000)):
        for number in range(60):
            memory.note(f"{number} {long}", long)
        memory.shrink(20_000)
        assert 10 * len(long) < len(memory.dump()) < 200_000
        assert '"question": "59 ' in memory.dump()


def test_it_shrinks_to_no_less_than_it_recalls() -> None:
    memory = ConversationMemory(window=1_000, max_tokens=100_000)
    for number in range(60):
        memory.note(str(number), "a" * 3_000)
    memory.shrink(10)
    assert len(memory.turns) == 60


def test_the_last_turn_is_kept_however_long_it_is() -> None:
    memory = ConversationMemory(window=3)
    memory.note("one", "")
    memory.note("a" * 100_000, "")
    memory.shrink(10)
    assert [len(one.question) for one in memory.turns] == [100_000]
