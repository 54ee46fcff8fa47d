"""The markers of the ReAct text format, which divide a reply into parts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_KIND = r"(thought|(?:action|tool)[ _]*input|input|action|tool|observation|final[ _]*answer|question)"
AFTER = r"[ \t]*+\d*+[ \t]*+[*_`]*+[ \t]*+[:\uff1a][*_`]*[ \t]*"  # possessive: no backtracking over long runs of spaces
AT_LINE_START = re.compile(rf"^[ \t>*_#`-]*{_KIND}{AFTER}", re.IGNORECASE | re.MULTILINE)
ANYWHERE = re.compile(rf"(?<![\w\"']){_KIND}{AFTER}", re.IGNORECASE)


class Part(NamedTuple):
    """A part of a reply: its kind and text, the position of its marker, and its end."""

    kind: str
    text: str
    begin: int
    end: int


def parts_of(text: str, marker: re.Pattern[str]) -> list[Part]:
    """Split a reply into its marked parts. An input may contain `Input:` and `Tool:` lines of its own."""
    if ":" not in text and "\uff1a" not in text:  # each marker ends in one
        return []
    found: list[tuple[str, int, int]] = []
    for match in marker.finditer(text):
        kind = _kind(match.group(1), found[-1][0] if found else "")
        if kind:
            found.append((kind, match.start(), match.end()))
    ends = [*(start for _, start, _ in found[1:]), len(text)]
    return [Part(kind, text[at:end].strip(), begin, end) for (kind, begin, at), end in zip(found, ends, strict=False)]


@lru_cache(maxsize=32)
def _kind(word: str, before: str) -> str:
    word = " ".join(word.lower().replace("_", " ").split())
    if word.endswith("input"):
        return "input" if before == "action" else ""
    if word == "tool":
        return "" if before == "input" else "action"
    return "final answer" if word.startswith("final") else word
