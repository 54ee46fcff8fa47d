"""Which of two or three has more, and how many of several have more than so much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retinue.evals.questions import Number

from .dice import Dice
from .encyclopedia import joined
from .facts import Entity, Fact, Quantity, World
from .measures import MEASURES, Measure, are_clear, described, size, stated, subjects
from .question import Description, Question

WORDS = ("none", "one", "two", "three", "four", "five", "six")
# Of relations in MEASURES: who is above the limit, and who below, as the end of "How many of them …?"
LIMITS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("town", "population"): ("have more than {t} inhabitants", "have fewer than {t} inhabitants"),
    ("town", "elevation"): ("lie more than {t} metres above sea level", "lie less than {t} metres above sea level"),
    ("town", "founded"): ("were founded after {t}", "were founded before {t}"),
    ("river", "length"): ("are longer than {t} kilometres", "are shorter than {t} kilometres"),
    ("mountain", "height"): ("are higher than {t} metres", "are lower than {t} metres"),
    ("mountain", "climbed_on"): ("were first climbed after the year {t}", "were first climbed before the year {t}"),
    ("lake", "area"): ("are larger than {t} square kilometres", "are smaller than {t} square kilometres"),
    ("person", "born_on"): ("were born after the year {t}", "were born before the year {t}"),
    ("person", "died_on"): ("died after the year {t}", "died before the year {t}"),
    ("novel", "pages"): ("have more than {t} pages", "have fewer than {t} pages"),
    ("novel", "published"): ("were published after {t}", "were published before {t}"),
    ("opera", "minutes"): ("last longer than {t} minutes", "last less than {t} minutes"),
    ("company", "employees"): ("have more than {t} employees", "have fewer than {t} employees"),
    ("company", "founded"): ("were founded after {t}", "were founded before {t}"),
    ("bridge", "length"): ("are longer than {t} metres", "are shorter than {t} metres"),
    ("bridge", "opened"): ("were opened after the year {t}", "were opened before the year {t}"),
    ("lighthouse", "height"): ("are higher than {t} metres", "are lower than {t} metres"),
    ("railway", "stations"): ("have more than {t} stations", "have fewer than {t} stations"),
}


def comparisons(world: World, dice: Dice) -> Iterator[Question]:
    """Yield questions which of two or three things has more of something."""
    for measure in MEASURES:
        for count in (2, 2, 3):
            facts = dice.sample(stated(world, measure.kind, measure.relation), count)
            if len(facts) == count and are_clear(facts):
                yield _comparison(dice, measure, facts, subjects(facts))
        pair = dice.sample(stated(world, measure.kind, measure.relation), 2)
        found = described(world, dice, pair) if len(pair) == 2 and are_clear(pair) else None
        if found:
            yield _comparison(dice, measure, pair, found)


def _comparison(dice: Dice, measure: Measure, facts: list[Fact], about: list[Description]) -> Question:
    upwards = dice.chance(0.5)
    best = (max if upwards else min)(facts, key=size)
    word = (measure.more, measure.less) if len(facts) == 2 else (measure.most, measure.least)
    texts = [one.text for one in about]
    which = "Who" if measure.kind == "person" else f"Which {measure.kind}"
    wordings = [f"{which} {word[not upwards]}: {joined(texts, 'or')}?"]
    if len(facts) == 2:
        wordings.append(f"{which} {word[not upwards]}, {texts[0]} or {texts[1]}?")
    else:
        wordings.append(f"Of {joined(texts)}, {which.lower()} {word[not upwards]}?")
    answers = (best.subject.title, *best.subject.aliases)
    leading = [fact for one in about for fact in one.facts]
    if leading:
        answers = (*answers, about[facts.index(best)].text)
    shape = f"{measure.kind}:{measure.relation}:{len(facts)}{leading[0].relation if leading else ''}"
    others = [one.subject.title for one in facts if one is not best]
    rivals = tuple(one for one in others if not any(one in answer for answer in answers))
    return Question("comparison", dice.pick(wordings), answers, (*leading, *facts), shape, rivals)


def counts(world: World, dice: Dice) -> Iterator[Question]:
    """Yield questions how many there are: of a list that a passage gives, or of one in the question."""
    for (kind, relation), ends in LIMITS.items():
        for count in (4, 5):
            facts = dice.sample(stated(world, kind, relation), count)
            if len(facts) == count:
                names = joined([fact.subject.name for fact in facts])
                yield from _limited(dice, names, facts, dice.pick(list(enumerate(ends))), ())
    for kind, relation, group, whole in (
        ("town", "river", "the towns on {x}", "How many towns does {x} flow through?"),
        ("novel", "author", "the novels by {x}", "How many novels did {x} write?"),
    ):
        for owner in world.entities:
            listed = [fact for fact in world.with_value(kind, relation, owner) if fact.home == owner]
            if listed:
                yield _counted(whole.format(x=owner.name), len(listed), tuple(listed[:1]), f"{kind}s")
                yield from _of_group(world, dice, group.format(x=owner.name), listed)


def _of_group(world: World, dice: Dice, group: str, listed: list[Fact]) -> Iterator[Question]:
    members: list[Entity] = [fact.subject for fact in listed]
    for (kind, relation), ends in LIMITS.items():
        facts = [fact for fact in stated(world, kind, relation) if fact.subject in members]
        if len(facts) == len(members):
            yield from _limited(dice, group, facts, dice.pick(list(enumerate(ends))), tuple(listed[:1]))


def _limited(
    dice: Dice, names: str, facts: list[Fact], end: tuple[int, str], listing: tuple[Fact, ...]
) -> Iterator[Question]:
    """Yield a question with a round limit among the values, but near none of them."""
    below, text = end
    sizes = sorted(map(size, facts))
    cut = dice.between(1, len(sizes) - 1)
    dated = not isinstance(facts[0].value, Quantity)
    limit = _round_between(sizes[cut - 1], sizes[cut], dated=dated)
    if limit is None:
        return
    shown = str(limit) if dated else f"{limit:,}"
    right = cut if below else len(sizes) - cut
    shape = f"{facts[0].subject.kind}:{facts[0].relation}{':group' if listing else ''}"
    limited = text.format(t=shown)
    wordings = (f"How many of {names} {limited}?", f"Of {names}, how many {limited}?")
    yield _counted(dice.pick(wordings), right, (*listing, *facts), shape)


def _round_between(low: float, high: float, *, dated: bool) -> int | None:
    """Return the roundest number that is well between two values, or none if they are too close."""
    low, high = (low + 1, high - 1) if dated else (low * 1.02, high * 0.98)
    for unit in (100_000, 50_000, 10_000, 5_000, 1_000, 500, 100, 50, 10, 5, 1):
        found = int(high // unit) * unit
        if found > low:
            return found
    return None


def _counted(text: str, right: int, facts: tuple[Fact, ...], shape: str) -> Question:
    return Question("count", text, (Number(right), WORDS[right]), facts, shape)
