"""People, in the order in which others need them."""

from __future__ import annotations

from datetime import date

from .draft import Draft
from .facts import Entity, Quantity

# Each role with the years of birth and how many have it. Theatres are older than operas, so their architects are, too.
ROLES = (
    ("architect", (1790, 1808), 2),
    ("architect", (1809, 1870), 3),
    ("novelist", (1800, 1875), 5),
    ("composer", (1816, 1870), 3),
    ("painter", (1800, 1875), 3),
    ("manufacturer", (1790, 1870), 4),
    ("mountaineer", (1800, 1875), 3),
    ("botanist", (1800, 1875), 1),
    ("surgeon", (1800, 1875), 1),
)
FAMILIES = 4  # pairs of people who share a family name
MAYORS = 5
TEACHERS = 8
SCHOOLED = 14


def add_people(draft: Draft) -> None:
    """Add the universities, and the people who studied there."""
    for town in draft.dice.sample(draft.of("town"), 2):
        word = draft.word(draft.styles[town])
        school = draft.add(Entity("university", f"{word} University", f"{word} University", (word,)))
        draft.state(school, "seat", town)
        draft.state(school, "founded", draft.dice.between(1580, 1760))
        draft.state(school, "students", Quantity(draft.tens(900, 9_000), "students"))
    born = [(role, years) for role, years, count in ROLES for _ in range(count)]
    families = [""] * len(born)
    doubles = draft.dice.sample(range(len(born)), 2 * FAMILIES)
    for one, other in zip(doubles[::2], doubles[1::2], strict=True):
        families[one] = families[other] = draft.word()
    shared = draft.word()  # a first name that two people have
    for at, ((role, years), family) in enumerate(zip(born, families, strict=True)):
        first = shared if at in (5, 14) else draft.word()
        _person(draft, role, (first, family), years)
    _acquaintances(draft)


def _person(draft: Draft, role: str, name: tuple[str, str], years: tuple[int, int]) -> None:
    first, family = name
    full = f"{first} {family or draft.word()}"
    # Whoever has a family name of their own may be named by it alone.
    person = draft.add(Entity("person", full, full, () if family else (full.split()[1],), draft.dice.chance(0.5)))
    birth = draft.day_in(*years)
    towns = draft.dice.sample(draft.of("town"), 2)
    draft.state(person, "profession", role)
    draft.state(person, "born_on", birth)
    draft.state(person, "born_in", towns[0])
    draft.state(person, "died_on", draft.day_in(birth.year + 50, birth.year + 88))
    draft.state(person, "died_in", towns[1])


def _acquaintances(draft: Draft) -> None:
    people = draft.of("person")
    for person in draft.dice.sample(people, SCHOOLED):
        draft.state(person, "school", draft.dice.pick(draft.of("university")))
    taught = 0
    for person in draft.dice.shuffled(people):
        elders = [one for one in people if 14 <= draft.year(person, "born_on") - draft.year(one, "born_on") <= 45]
        if elders and taught < TEACHERS:
            draft.state(person, "teacher", draft.dice.pick(elders))
            taught += 1
    for town, person in zip(draft.dice.sample(draft.of("town"), MAYORS), draft.dice.shuffled(people), strict=False):
        draft.state(town, "mayor", person)


def in_life(draft: Draft, person: Entity, youngest: int, latest: int = 2000) -> date:
    """Return a date on which the person lived and was at least `youngest` years old, at most of the year `latest`."""
    born, died = draft.year(person, "born_on"), draft.year(person, "died_on")
    return draft.day_in(born + youngest, min(died - 1, latest))


def of_role(draft: Draft, role: str) -> list[Entity]:
    """Return the people of a profession, oldest entry first."""
    return [person for person in draft.of("person") if draft.value(person, "profession") == role]
