"""Whether what a tool said is news: what comes along with any result, and says nothing, does not count.

Different inputs may well differ in nothing but a number ("2103 thousand", "520 thousand"), so a number counts for
news, except: one that says itself which request this was, when it was answered or how long that took; any number in
what went wrong; and any number in what came of an input that was written a little differently.
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
_NUMBER = re.compile(r"\d++(?:[.,:]\d++)*+")
_AROUND = " \t\n\"'?!.;"


def novelty_traces(action: AgentAction, outcome: Outcome, text: str) -> frozenset[tuple[str, str]]:
    """What is kept of an observation. It is news if nothing of this was kept before."""
    given = action.tool_input
    written = given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=repr)
    return _traces(action.tool, written, outcome, text)


@lru_cache(maxsize=16)  # asked for when an observation is made, and again when it is taken note of
def _traces(tool: str, written: str, outcome: Outcome, text: str) -> frozenset[tuple[str, str]]:
    plain = _NUMBER.sub("0", text)
    kept = {_ABOUT_THE_REQUEST.sub("", text), f"{plain}\x00{' '.join(written.lower().split()).strip(_AROUND)}"}
    if outcome != "result":
        kept.add(f"{plain}\x00\x00{outcome}")
    return frozenset((tool, one) for one in kept)
