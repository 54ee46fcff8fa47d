"""Companies and museums, novels, operas and paintings."""

from __future__ import annotations

from .draft import Draft
from .facts import Entity, Quantity
from .people import in_life, of_role

NOVELS = (4, 3, 2, 1, 1)  # of each novelist
OPERAS = (2, 2, 1)
PAINTINGS = (2, 1, 1)
LISTED = 2  # novelists whose own passages list their novels
WARES = ("clocks", "glass", "pianos", "locomotives", "paper", "porcelain", "pumps", "rope", "scales", "umbrellas")


def add_culture(draft: Draft) -> None:
    """Add what people founded, wrote, composed and painted."""
    makers = of_role(draft, "manufacturer")
    towns = draft.dice.shuffled(draft.of("town"))
    wares = draft.dice.shuffled(WARES)
    companies: list[Entity] = []
    for at in range(6):
        company = _organisation(draft, "company", "Company", (makers[(0, 0, 1, 2, 2, 3)[at]], towns[at]))
        draft.state(company, "ware", wares[at])
        draft.state(company, "employees", Quantity(draft.dice.between(35, 4_800), "employees"))
        companies.append(company)
    companies.sort(key=lambda company: draft.year(company, "founded"))
    for older, younger in ((0, 3), (1, 4)):  # no one of them is another's predecessor twice removed
        draft.state(companies[younger], "predecessor", companies[older])
    others = [*of_role(draft, "botanist"), *of_role(draft, "surgeon")]
    for founder, town in zip(others, towns[6:], strict=False):
        museum = _organisation(draft, "museum", "Museum", (founder, town))
        draft.state(museum, "exhibits", Quantity(draft.tens(700, 48_000), "exhibits"))
    _novels(draft)
    _operas(draft)
    _paintings(draft)


def _organisation(draft: Draft, kind: str, noun: str, by: tuple[Entity, Entity]) -> Entity:
    founder, town = by
    word = draft.word(draft.styles[town])
    found = draft.add(Entity(kind, f"{word} {noun}", f"the {word} {noun}"))
    draft.state(found, "founder", founder)
    draft.state(found, "founded", in_life(draft, founder, 24).year)
    draft.state(found, "seat", town)
    return found


def _titles(draft: Draft, kind: str, counts: tuple[int, ...], makers: list[Entity]) -> list[tuple[Entity, Entity]]:
    """Add works to their makers; the first of one and the last of another have titles with the same adjective."""
    works, adjective = [], ""
    for at, (maker, count) in enumerate(zip(makers, counts, strict=True)):
        for number in range(count):
            alike = adjective if at and number == count - 1 and at < 3 else ""
            title, first = draft.names.title(alike)
            adjective = adjective or first
            works.append((draft.add(Entity(kind, title, title)), maker))
    return works


def _novels(draft: Draft) -> None:
    novelists = of_role(draft, "novelist")
    towns = draft.dice.shuffled(draft.of("town"))
    for at, (novel, author) in enumerate(_titles(draft, "novel", NOVELS, novelists)):
        draft.state(novel, "author", author, home=author if author in novelists[:LISTED] else novel)
        draft.state(novel, "published", in_life(draft, author, 22).year)
        draft.state(novel, "pages", Quantity(draft.dice.between(118, 890), "pages"))
        draft.state(novel, "set_in", towns[at % len(towns)])


def _operas(draft: Draft) -> None:
    for opera, composer in _titles(draft, "opera", OPERAS, of_role(draft, "composer")):
        theatre = draft.dice.pick(draft.of("theatre"))
        youngest = max(24, draft.year(theatre, "opened") + 1 - draft.year(composer, "born_on"))
        draft.state(opera, "author", composer)
        draft.state(opera, "theatre", theatre)
        draft.state(opera, "premiered", in_life(draft, composer, youngest))
        draft.state(opera, "minutes", Quantity(draft.dice.between(74, 265), "minutes"))


def _paintings(draft: Draft) -> None:
    for painting, painter in _titles(draft, "painting", PAINTINGS, of_role(draft, "painter")):
        draft.state(painting, "author", painter)
        draft.state(painting, "painted", in_life(draft, painter, 19).year)
        draft.state(painting, "museum", draft.dice.pick(draft.of("museum")))
        draft.state(painting, "width", Quantity(draft.dice.between(34, 410), "centimetres"))
        draft.state(painting, "price", Quantity(draft.tens(600, 88_000), draft.currency()))
