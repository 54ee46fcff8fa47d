"""Who and what a conversation is about: found in the background, weighed, and replaced when it is outdated."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from fakes import fork_server
from fakes.memories import Replying, literal
from retinue import UsageError
from retinue.memory import Entity, EntityMemory
from retinue.memory.entity_memory import forget
from retinue.memory.stored_memory import count_tokens


def talk(memory: EntityMemory, *questions: str) -> None:
    async def all_of_it() -> None:
        for question in questions:
            await memory.remember(question, "I see.")

    asyncio.run(all_of_it())


def lines(memory: EntityMemory, question: str = "anything") -> list[str]:
    return asyncio.run(memory.recall(question)).facts.splitlines()


def known(memory: EntityMemory, name: str) -> Entity:
    return next(entity for entity in memory.entities if entity.name == name)


def test_what_the_user_says_is_known_of_each_entity() -> None:
    memory = EntityMemory(Replying(literal))
    talk(memory, "Greta lives in Oslo. Greta likes sailing.", "I am Paul.", "Who wrote Hamlet?")
    memory.settled()
    assert lines(memory) == ["The user, who asks this: is Paul", "Greta (person): lives in Oslo; likes sailing"]
    greta = known(memory, "Greta")
    assert [(fact.about, fact.since) for fact in greta.facts] == [("home", 1), ("likes", 1)]


def test_extraction_waits_for_its_turn_and_never_holds_up_the_conversation() -> None:
    model = Replying(literal)
    model.gate.clear()
    memory = EntityMemory(model, every=3)
    talk(memory, "Greta lives in Oslo.", "Ben likes tea.")
    assert model.asked == []
    talk(memory, "Ada likes chess.", "Eve likes jazz.")  # while the model does not answer
    assert model.was_asked.wait(10)
    assert lines(memory) == []
    model.gate.set()
    memory.settled()
    assert {entity.name for entity in memory.entities} == {"Greta", "Ben", "Ada", "Eve"}
    assert len(model.asked) == 4


def test_it_goes_on_when_the_callers_loop_has_ended() -> None:
    model = Replying(literal)
    done = threading.Event()

    def last(prompt: str) -> str:
        if "Ben likes tea.\nFacts:" in prompt:
            done.set()
        return literal(prompt)

    model._answer = last
    talk(EntityMemory(model, every=2), "Greta lives in Oslo.", "Ben likes tea.")
    assert done.wait(10)


def test_what_is_outdated_gives_way_to_what_is_new() -> None:
    memory = EntityMemory(Replying(literal), every=1)
    talk(memory, "I am Paul. I lives in Lima. I likes tea.", "I moved to Quito.", "I likes chess.")
    memory.settled()
    assert lines(memory) == ["The user, who asks this: is Paul; likes tea; moved to Quito; likes chess"]
    assert [(f.fact, f.since, f.until) for f in known(memory, "User").facts if f.until] == [("lives in Lima", 1, 2)]


def test_what_is_said_again_is_no_news_and_what_was_made_up_is_left_out() -> None:
    memory = EntityMemory(Replying(literal))
    talk(memory, "Greta lives in Oslo.", "Greta lives in Oslo.")
    memory.settled()
    assert lines(memory) == ["Greta (person): lives in Oslo"]
    nobody, castle = '["Nobody", "person", "lives here", "home"]', '["Greta", "person", "owns a castle", "other"]'
    memory = EntityMemory(Replying(lambda prompt: f'[{nobody}, {castle}, ["80%", "other", "lives", "home"]]'))
    talk(memory, "Greta lives here.")
    memory.settled()
    assert memory.entities == ()


@pytest.mark.parametrize(
    ("said", "name", "others"),
    [
        (["Greta lives in Oslo.", "Greta Berg works at Acme."], "Greta Berg", ["Greta"]),
        (["Greta Berg works at Acme.", "Greta lives in Oslo."], "Greta Berg", []),
    ],
)
def test_a_longer_name_is_the_same_person(said: list[str], name: str, others: list[str]) -> None:
    rows = {
        "lives": '[["Greta", "person", "lives in Oslo", "home"]]',
        "works": '[["Greta Berg", "person", "works at Acme", "work"]]',
    }
    memory = EntityMemory(
        Replying(lambda prompt: next(r for key, r in rows.items() if f" {key} " in prompt.splitlines()[-2]))
    )
    talk(memory, *said)
    memory.settled()
    assert [(entity.name, entity.others) for entity in memory.entities] == [(name, others)]


def test_those_whom_the_question_names_come_first_then_the_user_then_the_important() -> None:
    memory = EntityMemory(Replying(literal), half_life=4)
    talk(memory, "Old likes tea.", "I likes cake.", *["New likes jazz."] * 3, "What is new?")
    memory.settled()
    assert [line.split()[0] for line in lines(memory)] == ["The", "New", "Old"]
    assert [line.split()[0] for line in lines(memory, "How is old?")] == ["Old", "The", "New"]


def test_what_is_not_mentioned_fades_and_is_there_when_it_is_named() -> None:
    memory = EntityMemory(Replying(literal), every=1, half_life=2)
    talk(memory, "Greta lives in Oslo.")
    memory.settled()
    talk(memory, *["And what else?"] * 12)
    memory.settled()
    assert lines(memory) == []
    assert lines(memory, "Where is Greta?") == ["Greta (person): lives in Oslo"]
    talk(memory, "What about Greta?")
    assert lines(memory) == ["Greta (person): lives in Oslo"]
    assert known(memory, "Greta").mentions == 2


def test_only_as_many_entities_as_the_prompt_has_room_for() -> None:
    memory = EntityMemory(Replying(literal), max_tokens=60)
    talk(memory, *[f"Person{number} likes things of the kind {number}." for number in range(20)])
    memory.settled()
    found = lines(memory)
    assert 1 < len(found) < 5
    assert count_tokens("\n".join(found)) <= 60
    assert found[0].startswith("Person19 ")
    assert lines(memory, "Who is Person3?")[0].startswith("Person3 ")


def test_one_of_whom_nothing_is_known_takes_no_room() -> None:
    memory = EntityMemory(Replying(lambda prompt: '[["Oslo", "place", "", "other"], ["Oslo", "place", "is", "other"]]'))
    talk(memory, "Oslo!")
    memory.settled()
    assert lines(memory) == []


def test_of_whom_much_is_known_there_is_a_summary_made_anew_with_what_is_new() -> None:
    model = Replying(literal)
    memory = EntityMemory(model, every=1)
    talk(memory, *[f"Greta likes the thing that is called number {number} by everybody." for number in range(4)])
    memory.settled()
    first = known(memory, "Greta").summary
    assert first.startswith("in short: likes the thing")
    assert lines(memory)[0].startswith("Greta (person): in short:")
    talk(memory, "Greta lives in Oslo.")
    memory.settled()
    assert known(memory, "Greta").summary == f"{first}; lives in Oslo"


def test_a_model_that_fails_is_logged_and_what_was_said_is_extracted_later(caplog: pytest.LogCaptureFixture) -> None:
    model = Replying(literal)
    model.down = True
    memory = EntityMemory(model, every=1)
    with caplog.at_level(logging.WARNING):
        talk(memory, "Greta lives in Oslo.")
        memory.settled()
    assert "the entity memory was not brought up to date: the model is down" in caplog.text
    model.down = False
    talk(memory, "Ben likes tea.")
    memory.settled()
    assert {entity.name for entity in memory.entities} == {"Greta", "Ben"}


def test_what_was_known_is_there_after_a_restart_and_what_was_waiting_is_extracted(tmp_path: Path) -> None:
    path = tmp_path / "mine" / "entities.json"
    memory = EntityMemory(Replying(literal), path=path)
    talk(memory, "Greta lives in Oslo.")
    memory.settled()
    talk(memory, "Ben likes tea.")
    again = EntityMemory(Replying(literal), path=path)
    assert lines(again) == ["Greta (person): lives in Oslo"]
    again.settled()
    assert lines(again) == ["Ben (person): likes tea", "Greta (person): lives in Oslo"]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"max_tokens": 10}, {"half_life": 0}])
def test_what_cannot_work_is_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least"):
        EntityMemory(Replying(literal), **wrong)  # type: ignore[arg-type]


def test_the_example_remembers_across_a_restart() -> None:
    example = Path(__file__).parents[2] / "examples" / "memory.py"
    done = fork_server.python(["-W", "error", example])
    assert (done.returncode, done.stderr) == (0, "")
    assert "known: User: lives in New York (since turn 1, until turn 3)\n" in done.stdout
    assert "known: Greta: plays the cello (since turn 2)\n" in done.stdout
    assert done.stdout.endswith("agent: You live in Boston.\nsummary: Greta, a friend, plays the cello.\n")


def test_what_is_known_stays_small_and_the_most_important_is_kept() -> None:
    entities = [Entity(f"Ben{number}", "person", 1, 1, mentions=1 + number % 7) for number in range(180)]
    for entity in entities:
        for number in range(28):
            entity.learn("likes", f"likes {number} {'a' * 90}", 1)
    user = Entity("User", "person", 1, 1, mentions=0)
    for number in range(100):
        user.learn("name", f"is also called Ada{number}", 1)
    entities.append(user)
    forget(entities, 200, 1, 20.0, 20_000)
    assert 10 < len(entities) < 60
    assert user in entities
    assert "Ada99" in user.others
    assert sum(one.size for one in entities) < 22_000
    assert {one.mentions for one in entities} == {0, 7}
