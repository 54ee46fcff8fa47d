"""Decides whether a tool's output is news. Boilerplate that accompanies any result does not count.

Results for different inputs may differ only in a number ("2103 thousand", "520 thousand"), so a new number counts as
news. Exceptions: request ids, timestamps and durations; any number in an error; and any number in the output for an
input that was only spelled differently.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from .values import AgentAction, Outcome

_ABOUT_THE_REQUEST = re.compile(
    r"\b(?:request|attempt|retry|trace|correlation)(?:[ _-]?(?:id|no\.?|number))?[\"']?[ \t]{0,4}[:=#(]?[ \t\"'#]{0,4}"
    r"(?=[a-f-]{0,40}\d)[0-9a-f-]{1,40}\b"
    r"|\b(?:as of|checked|fetched|generated|queried|requested|retrieved|served)(?: at| on)?:? "
    r"(?:\d{4}-\d\d-\d\d[T ]?)?(?:\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?)?(?:Z\b|[+-]\d\d:?\d\d)?"
    r"|\b(?:in|took) [\d.]{1,20} ?(?:ms|milliseconds)\b",
    re.IGNORECASE,
)
_ABOUT = (  # one of these is in whatever the pattern matches, and to look for them takes a tenth of its time
    *("request", "attempt", "retry", "trace", "correlation", "as of", "checked", "fetched", "generated", "queried"),
    *("retrieved", "served", "ms", "milliseconds"),
)
_NUMBER = re.compile(r"\d++(?:[.,:]\d++)*+")
_SORTED = json.JSONEncoder(sort_keys=True, default=repr)
_AROUND = " \t\n\"'?!.;"


def novelty_traces(action: AgentAction, outcome: Outcome, text: str) -> frozenset[tuple[str, str]]:
    """Return the traces of an observation. The observation is news if none of its traces was seen before."""
    given = action.tool_input
    written = given if isinstance(given, str) else _SORTED.encode(given)
    return _traces(action.tool, written, outcome, text)


@lru_cache(maxsize=16)  # computed when an observation is made, and again when it is recorded
def _traces(tool: str, written: str, outcome: Outcome, text: str) -> frozenset[tuple[str, str]]:
    plain = _NUMBER.sub("0", text)
    kept = {_without_boilerplate(text), f"{plain}\x00{' '.join(written.lower().split()).strip(_AROUND)}"}
    if outcome != "result":
        kept.add(f"{plain}\x00\x00{outcome}")
    return frozenset([(tool, one) for one in kept])


def _without_boilerplate(text: str) -> str:
    if text.isascii():  # other letters may be equal to these without regard to case
        lower = text.lower()
        for word in _ABOUT:
            if word in lower:
                break
        else:
            return text
    return _ABOUT_THE_REQUEST.sub("", text)
