"""Theatres, bridges, lighthouses and railways, and who first climbed the mountains."""

from __future__ import annotations

from datetime import timedelta

from .draft import Draft
from .facts import Entity, Quantity
from .people import in_life, of_role


def add_buildings(draft: Draft) -> None:
    """Add what architects and engineers made."""
    elders, others = of_role(draft, "architect")[:2], of_role(draft, "architect")[2:]
    towns = draft.dice.shuffled(draft.of("town"))
    for at in range(3):
        theatre = _named(draft, "theatre", "Theatre")
        draft.state(theatre, "town", towns.pop())
        draft.state(theatre, "seats", Quantity(draft.dice.between(240, 1_900), "seats"))
        _opened(draft, theatre, elders[at % 2], 1850)
    words = [draft.word() for _ in range(4)]
    for at, river in enumerate([*draft.of("river")]):
        name = f"{('Old', 'New')[at]} {words[0]}" if at < 2 else words[at - 1]
        bridge = draft.add(_building("bridge", name, "Bridge"))
        draft.state(bridge, "river", river)
        draft.state(bridge, "length", Quantity(draft.dice.between(122, 960), "metres"))
        draft.state(bridge, "cost", Quantity(draft.tens(20_000, 940_000), draft.currency()))
        _opened(draft, bridge, others[(0, 0, 1, 2, 2)[at]])
    for at in range(4):
        # The first one has the name of a bridge.
        house = draft.add(_building("lighthouse", words[1] if at == 0 else draft.word(), "Lighthouse"))
        draft.state(house, "town", towns.pop())
        draft.state(house, "height", Quantity(draft.dice.between(19, 74), "metres"))
        draft.state(house, "steps", Quantity(draft.dice.between(88, 390), "steps"))
        _opened(draft, house, draft.dice.pick(others))
    _railways(draft)
    _first_ascents(draft)


def _named(draft: Draft, kind: str, noun: str) -> Entity:
    return draft.add(_building(kind, draft.word(), noun))


def _building(kind: str, word: str, noun: str) -> Entity:
    return Entity(kind, f"{word} {noun}", f"the {word} {noun}")


def _opened(draft: Draft, building: Entity, architect: Entity, latest: int = 2000) -> None:
    draft.state(building, "architect", architect)
    draft.state(building, "opened", in_life(draft, architect, 27, latest))


def _railways(draft: Draft) -> None:
    for _ in range(4):
        railway = _named(draft, "railway", "Line")
        start, end = draft.dice.sample(draft.of("town"), 2)
        goods = draft.day_in(1845, 1899)
        draft.state(railway, "start", start)
        draft.state(railway, "end", end)
        length, speed = draft.dice.between(23, 310), draft.dice.between(28, 66)
        draft.state(railway, "length", Quantity(length, "kilometres"))
        draft.state(railway, "opened_goods", goods)
        draft.state(railway, "opened", goods + timedelta(days=draft.dice.between(12, 75)))
        currency = draft.currencies[draft.place(start, "country")]
        draft.state(railway, "fare", Quantity(draft.dice.between(3, 68), currency))
        draft.state(railway, "minutes", Quantity(length * 60 // speed, "minutes"))
        draft.state(railway, "stations", Quantity(draft.dice.between(4, 38), "stations"))


def _first_ascents(draft: Draft) -> None:
    climbers = of_role(draft, "mountaineer")
    for at, mountain in enumerate(draft.dice.shuffled(draft.of("mountain"))):
        climber = climbers[(0, 0, 1, 2, 2, 2)[at]]
        draft.state(mountain, "climber", climber)
        draft.state(mountain, "climbed_on", in_life(draft, climber, 20, draft.year(climber, "born_on") + 48))
