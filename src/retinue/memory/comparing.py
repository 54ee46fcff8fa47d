"""Whether something still holds, now that something else is said."""

from __future__ import annotations

from ..asking import ask_once
from ..grammar import Constraint, choice
from ..ports import Model
from ..strategies.quoting import quoted
from .filling import record

_FORM = Constraint(choice(" yes\n", " no\n"), record(both={"type": "string", "enum": ["yes", "no"]}))
_EXAMPLES = (
    ("is in Lima right now", "has moved to Quito", "no"),
    ("sings in a choir", "lives in Quito", "yes"),
    ("works at Acme", "is now a cook at Globex", "no"),
    ("lives in Turku", "will fly to Rome in May", "yes"),
    ("will marry in May", "will marry in June", "no"),
    ("likes tea", "likes chess", "yes"),
    ("is a nurse in Turku", "works at night", "yes"),
    ("is 30 years old", "turned 31", "no"),
)


async def both_hold(model: Model, old: str, new: str) -> bool:
    """Whether both can be true of somebody now, `new` having been said later. Raises `ModelError`."""
    said = (await ask_once(model, _HEAD + _asked(quoted(old), quoted(new)), max_tokens=16, constraint=_FORM)).text
    return "no" not in said.casefold().split() and '"no"' not in said.casefold()


def _asked(old: str, new: str) -> str:
    return f"First: {old}\nLater: {new}\nBoth true now:"


_HEAD = "Of somebody one thing was said first, and another later. Can both be true now?\n\n" + "".join(
    f"{_asked(old, new)} {both}\n\n" for old, new, both in _EXAMPLES
)
