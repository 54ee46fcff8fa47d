"""Checks whether an older statement still holds, given a newer one.

Asked for yes or no, a small model is right about half of the time. If it first says what each statement is about, it is
mostly right (17 of 20 pairs instead of 10).
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
    ("is in Lima right now", "has moved to Quito", "where they are", "where they are", _OUTDATED),
    ("sings in a choir", "lives in Quito", "what they do for fun", "where they live", _TRUE),
    ("works at Acme", "is now a cook at Globex", "where they work", "where they work", _OUTDATED),
    ("lives in Turku", "will fly to Rome in May", "where they live", "a journey", _TRUE),
    ("will marry in May", "will marry in June", "when they marry", "when they marry", _OUTDATED),
    ("likes tea", "likes chess", "a drink they like", "a game they like", _TRUE),
    ("lives in Turku", "often swims in the sea", "where they live", "a habit", _TRUE),
    ("now works at Globex", "often walks by the lake", "where they work", "a habit", _TRUE),
    ("has a brother", "comes from Ghent", "a relative", "where they come from", _TRUE),
    ("grew up in Turku", "is in Lima now", "where they come from", "where they are", _TRUE),
    ("is 30 years old", "turned 31", "how old they are", "how old they are", _OUTDATED),
    ("is a nurse at Ullevi", "left Ullevi", "where they work", "where they work", _OUTDATED),
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
