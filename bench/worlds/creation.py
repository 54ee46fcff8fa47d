"""A world from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .buildings import add_buildings
from .culture import add_culture
from .draft import Draft
from .facts import Entity, Fact, World
from .geography import add_geography
from .people import add_people

HIDDEN = 34  # facts of a world that no passage states
# What can be left out: nothing else in the world says it or lets it be inferred.
HIDEABLE: Mapping[str, tuple[str, ...]] = {
    "town": ("population", "elevation", "founded", "mayor"),
    "river": ("length", "source", "mouth"),
    "mountain": ("height", "climber", "climbed_on"),
    "lake": ("depth", "area"),
    "person": ("born_on", "born_in", "died_on", "died_in", "school", "teacher"),
    "novel": ("pages", "published", "set_in"),
    "opera": ("premiered", "theatre", "minutes"),
    "painting": ("painted", "museum", "price", "width"),
    "university": ("founded", "students"),
    "company": ("founder", "founded", "seat", "employees"),
    "museum": ("founder", "founded", "exhibits"),
    "bridge": ("architect", "length", "opened", "cost"),
    "lighthouse": ("architect", "height", "opened", "steps"),
    "theatre": ("architect", "seats", "opened"),
    "railway": ("length", "opened", "fare", "stations", "minutes"),
}


def create(seed: int) -> World:
    """Return the world of a seed: always the same one."""
    draft = Draft(seed)
    add_geography(draft)
    add_people(draft)
    add_buildings(draft)
    add_culture(draft)
    _hide(draft)
    return draft.done()


def _hide(draft: Draft) -> None:
    """Leave facts out, at most one of each subject."""
    capitals = {fact.value for fact in draft.facts if fact.relation == "capital"}
    subjects = [entity for entity in draft.entities if entity.kind in HIDEABLE and entity not in capitals]
    for subject in draft.dice.sample(subjects, HIDDEN):
        places = [
            at
            for at, fact in enumerate(draft.facts)
            if fact.subject == subject and fact.relation in HIDEABLE[subject.kind]
        ]
        at = draft.dice.pick(places)
        draft.facts[at] = _hidden(draft, draft.facts[at])


def _hidden(draft: Draft, fact: Fact) -> Fact:
    """Return the fact as one that is stated nowhere. The passages name other values; so an entity gives way to a name
    that is in none of them."""
    if not isinstance(fact.value, Entity):
        return replace(fact, stated=False)
    name = f"{draft.word()} {draft.word()}" if fact.value.kind == "person" else draft.word()
    return replace(fact, stated=False, value=name)
