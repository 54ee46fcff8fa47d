"""Checks whether an older statement still holds, given a newer one.

Asked for yes or no, a small model is right about half of the time. If it first says what each statement is about, it is
mostly right (17 of 20 pairs instead of 10, with other examples than today's).
"""

from __future__ import annotations

from ..core.completion import ask_once
from ..core.grammar import Chars, Constraint, Repeat, choice, seq
from ..core.protocols import Model
from ..strategies.prompting.injection_guard import neutralize
from .json_record import record, text

_OUTDATED, _TRUE = "outdated", "still true"
_TOPIC_CHARS = 40
_EXAMPLES = (
    ("rents a flat in Lima", "has settled in Quito", "where they live", "where they live", _OUTDATED),
    ("sings in a choir", "rents a flat in Quito", "what they do for fun", "where they live", _TRUE),
    ("bakes bread at Samson", "drives a taxi these days", "their job", "their job", _OUTDATED),
    ("owns a house in Turku", "spends Easter in Rome", "where they live", "a journey", _TRUE),
    ("has a wedding on Friday", "has the wedding on Sunday instead", "when they marry", "when they marry", _OUTDATED),
    ("is fond of tea", "is fond of riddles", "a drink they like", "a game they like", _TRUE),
    ("owns a house in Turku", "swims in the sea a lot", "where they live", "a habit", _TRUE),
    ("drives a taxi these days", "grows roses", "their job", "a habit", _TRUE),
    ("has an uncle", "was raised in Ghent", "a relative", "where they come from", _TRUE),
    ("was raised in Turku", "is staying in Lima", "where they come from", "where they are", _TRUE),
    ("is thirty", "turned thirty-one", "how old they are", "how old they are", _OUTDATED),
    ("bakes bread at Samson", "gave notice at Samson", "their job", "their job", _OUTDATED),
)


async def are_consistent(model: Model, old: str, new: str) -> bool:
    """Return whether `old`, said earlier of somebody, is still true given `new`. Raises `ModelError`."""
    reply = await ask_once(model, _HEAD + _asked(neutralize(old), neutralize(new)), max_tokens=64, constraint=_FORM)
    return _OUTDATED not in reply.text.casefold()


def _form() -> Constraint:
    topic = seq(" ", Repeat(Chars(r"^\n.>-"), 3, _TOPIC_CHARS), ".")
    verdict = {"type": "string", "enum": [_OUTDATED, _TRUE]}
    schema = record(old_says=text(_TOPIC_CHARS), new_says=text(_TOPIC_CHARS), the_old_is=verdict)
    return Constraint(seq(topic, " New says:", topic, " -> ", choice(_OUTDATED, _TRUE), "\n"), schema)


def _asked(old: str, new: str) -> str:
    return f"Old: {old}\nNew: {new}\nOld says:"


_FORM = _form()
_HEAD = (
    "Something old is known of somebody, and something new is said of them. Does the new take the place of the old?\n\n"
    + "".join(f"{_asked(old, new)} {one}. New says: {other}. -> {end}\n\n" for old, new, one, other, end in _EXAMPLES)
)
