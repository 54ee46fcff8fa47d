"""Countries, towns, mountains, lakes and rivers."""

from __future__ import annotations

from .draft import Draft
from .facts import Entity, Quantity
from .names import STYLES

TOWNS = (5, 4, 4)  # of each country
ON_RIVERS = (4, 3, 2, 2, 2)  # towns on each river
LISTED = 2  # rivers whose own passages list their towns


def add_geography(draft: Draft) -> None:
    """Add the land: what is in it has no maker."""
    for towns, style in zip(TOWNS, draft.dice.shuffled(list(STYLES)), strict=False):
        _country(draft, style, towns)
    _mountains_and_lakes(draft)
    _rivers(draft)


def _country(draft: Draft, style: str, towns: int) -> None:
    name = draft.word(style)
    country = draft.add(Entity("country", name, name), style)
    currency = draft.word(style).lower()
    draft.currencies[country] = currency + ("es" if currency[-1] in "shz" else "s")
    names = [draft.word(style) for _ in range(towns - 1)]
    names[1:2] = [f"Upper {names[1]}", f"Lower {names[1]}"]
    found = [draft.add(Entity("town", name, name), style) for name in names]
    people = [draft.tens(2_100, 98_000) for _ in found]
    people[0] = max(people) + draft.tens(20_000, 190_000)
    for town, count in zip(found, people, strict=True):
        draft.state(town, "country", country)
        draft.state(town, "population", Quantity(count, "inhabitants"))
        draft.state(town, "elevation", Quantity(draft.dice.between(6, 870), "metres"))
        draft.state(town, "founded", draft.dice.between(1010, 1650))
    draft.state(country, "capital", found[0])
    draft.state(country, "population", Quantity(sum(people) + draft.tens(sum(people), 3 * sum(people)), "inhabitants"))
    draft.state(country, "area", Quantity(draft.tens(8_000, 96_000), "square kilometres"))
    draft.state(country, "currency", currency)
    draft.state(country, "independent", draft.dice.between(1660, 1830))


def _mountains_and_lakes(draft: Draft) -> None:
    for at in range(6):
        country = draft.of("country")[at % 3]
        word = draft.word(draft.styles[country])
        mountain = draft.add(Entity("mountain", f"Mount {word}", f"Mount {word}", (word,)), draft.styles[country])
        draft.state(mountain, "country", country)
        draft.state(mountain, "height", Quantity(draft.dice.between(1_150, 4_900), "metres"))
    for at in range(4):
        country = draft.of("country")[at % 3]
        word = draft.word(draft.styles[country])
        lake = draft.add(Entity("lake", f"Lake {word}", f"Lake {word}"), draft.styles[country])
        draft.state(lake, "country", country)
        draft.state(lake, "depth", Quantity(draft.dice.between(21, 420), "metres"))
        draft.state(lake, "area", Quantity(draft.dice.between(12, 890), "square kilometres"))


def _rivers(draft: Draft) -> None:
    sources = draft.dice.sample(draft.of("mountain"), len(ON_RIVERS))
    lakes = draft.of("lake")
    rivers = []
    for at, source in enumerate(sources):
        # The last one has the name of a lake into which it does not flow.
        word = lakes[0].title.removeprefix("Lake ") if at == 4 else draft.word(draft.styles[source])
        river = draft.add(Entity("river", f"{word} River", f"the {word} River", () if at == 4 else (word,)))
        draft.state(river, "length", Quantity(draft.dice.between(61, 1_240), "kilometres"))
        draft.state(river, "source", source)
        draft.state(river, "mouth", draft.dice.pick(lakes[1:]))
        rivers.append(river)
    towns = draft.dice.shuffled(draft.of("town"))
    for at, (river, count) in enumerate(zip(rivers, ON_RIVERS, strict=True)):
        for town in [towns.pop() for _ in range(count)]:
            draft.state(town, "river", river, home=river if at < LISTED else town)
