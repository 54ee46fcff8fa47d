"""Lookups, bridges of two and three facts, and questions that no passage answers."""

from __future__ import annotations

from collections.abc import Iterator

from .dice import Dice
from .encyclopedia import written
from .facts import Entity, Fact, Quantity, World
from .question import Description, Question, accepted, is_tight, named, steps
from .wordings import ASKS

KINDS = {1: "lookup", 2: "bridge2", 3: "bridge3"}  # by the number of passages that hold the facts


def chains(world: World, dice: Dice, passages: int) -> Iterator[Question]:
    """Yield every question that follows one fact after another through so many passages."""
    for description in _descriptions(world, dice, passages - 1):
        for fact in world.about[description.thing].values():
            if fact.stated and not _is_circular(description, fact) and not _is_guessed(description, fact):
                yield from _asked(world, dice, KINDS[passages], description, fact)


def unanswerable(world: World, dice: Dice, collection: str) -> Iterator[Question]:
    """Yield the questions whose last fact no passage states, and whose value is nowhere in the collection's text."""
    missing = {fact.subject: fact for fact in world.facts if not fact.stated and is_missing(fact, collection)}
    for length in (0, 1):
        for description in _descriptions(world, dice, length):
            if description.thing in missing:
                yield from _asked(world, dice, "unanswerable", description, missing[description.thing])


def is_missing(fact: Fact, collection: str) -> bool:
    """Return whether the fact's value is nowhere in the text."""
    forms = {written(fact.value, "day"), written(fact.value, "month")}
    if isinstance(fact.value, Quantity) and fact.value.number > 999:
        forms.add(f"{fact.value.number:,}")  # some sentences leave the unit out
    return not any(form in collection for form in forms)


def _is_circular(description: Description, fact: Fact) -> bool:
    """Return whether the fact leads back to what the description has passed through."""
    passed = {thing for known in description.facts for thing in (known.subject, known.value)}
    return fact.value in passed or fact.home in {known.home for known in description.facts}


def _is_guessed(description: Description, fact: Fact) -> bool:
    """Return whether the description says the profession that is asked for ("the architect of …")."""
    said = {known.relation for known in description.facts[-1:]} & {"author", "architect", "climber", "founder"}
    return fact.relation == "profession" and bool(said)


def _descriptions(world: World, dice: Dice, length: int) -> Iterator[Description]:
    """Yield the descriptions of so many steps."""
    found = [named(entity) for entity in world.entities]
    for _ in range(length):
        found = [longer for inner in found for longer in steps(world, inner, dice)]
    yield from found


def _asked(world: World, dice: Dice, kind: str, description: Description, fact: Fact) -> Iterator[Question]:
    known = len(description.facts)
    wordings = ASKS.get((fact.subject.kind, fact.relation), ())
    fitting = [text for text in wordings if known == 0 or is_tight(text) or (known == 1 and _is_short(description))]
    relations = ">".join([*(one.relation for one in description.facts), fact.relation])
    if not fitting:
        return
    others = {
        name: other.value.name for name, other in world.about[fact.subject].items() if isinstance(other.value, Entity)
    }
    unit = fact.value.unit if isinstance(fact.value, Quantity) else ""
    text = dice.pick(fitting).format(**{"x": description.text, "unit": unit, **others})
    answers = (*accepted(fact.value), *_plural(fact)) if fact.stated else ()
    if not any(isinstance(answer, str) and answer.lower() in text.lower() for answer in answers):
        yield Question(kind, text, answers, (*description.facts, fact), f"{fact.subject.kind}:{relations}")


def _is_short(description: Description) -> bool:
    """Return whether the description ends with a name, so that a wording may go on after it."""
    last = description.facts[-1]
    names = [last.subject.name, last.value.name if isinstance(last.value, Entity) else ""]
    return any(name and description.text.endswith(name) for name in names)


def _plural(fact: Fact) -> tuple[str, ...]:
    if fact.relation != "currency":
        return ()
    text = str(fact.value)
    return (text + ("es" if text[-1] in "shz" else "s"),)
