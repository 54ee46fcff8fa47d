"""Extracts the answer from a reply that is still arriving, without showing anything the rest could retract.

Each function receives the reply so far, and its result only grows. Undecidable text (a line that may become a marker,
the words that say that no tool fits) is held back, if necessary to the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core.tool import Tool
from ...core.values import AgentFinish
from .json_reply import partial_answer
from .markers import AFTER, AT_LINE_START
from .react_text import INVENTED, NO_TOOL, UnreadableReply, parse

_DECORATION = r"[ \t>*_#`-]*+"
_BEFORE_COLON = r"[ \t]*+\d*+[ \t]*+[*_`]*+[ \t]*+"
_FINAL = re.compile(rf"^{_DECORATION}final[ _]*answer{AFTER}", re.IGNORECASE | re.MULTILINE)
_FENCE_BEGUN = re.compile(r"(?<!`)`++[a-z]*+\s*+\Z", re.IGNORECASE)
_NO_WORDS = re.compile(r"[\W_]+")


def any_prefix(*words: str, between: str = "[ _]*+") -> str:
    """Return a pattern for any prefix of one of `words`, with `between` allowed between them."""
    return f"(?:{'|'.join(_beginning(word, between) for word in words)})"


def _beginning(word: str, between: str) -> str:
    pattern = ""
    for letter in reversed(word[1:]):
        pattern = f"(?:{between if letter == ' ' else letter}{pattern})?"
    return word[0] + pattern


_LINE_BEGUN = re.compile(
    _DECORATION
    + rf"(?:{any_prefix('thought', 'action input', 'tool input', 'input', 'observation', 'final answer', 'question')}"
    + rf"{_BEFORE_COLON})?",
    re.IGNORECASE,
)
_WORD_BEGUN = re.compile(
    rf"(?<=\s){any_prefix('thought', 'observation', 'final answer')}{_BEFORE_COLON}\Z", re.IGNORECASE
)


def plain_answer(text: str) -> str:
    """Extract from a text that is itself the answer."""
    text = text.strip()
    return "" if may_begin_with(text, NO_TOOL) else text


def may_begin_with(text: str, phrase: str) -> bool:
    """Return whether `text` begins with `phrase`, or may do so once complete, whatever the punctuation."""
    said = _NO_WORDS.sub(" ", text[: 2 * len(phrase)]).strip().lower()
    return phrase.startswith(said[: len(phrase)])


def json_answer(text: str) -> str:
    """Extract the answer's text from a JSON reply."""
    return plain_answer(partial_answer(text)) if "nswer" in text else ""


def marked_answer(text: str, tools: Sequence[Tool]) -> str:
    """Extract from a ReAct reply, including its JSON form, what follows "Final Answer:" at the beginning of a line."""
    if "nswer" not in text.lower():  # the case while only a thought and an action arrive
        return ""
    if text.lstrip().startswith("{"):
        return finished_answer(partial_answer(text))
    marker = _FINAL.search(text)
    if marker is None:
        return ""
    try:
        decision = parse(f"{text[: marker.end()]}x", tools).decision
    except UnreadableReply:
        return ""
    in_it = "FINAL" in marker.group() and text.startswith("{", marker.end())  # OPEA writes the answer as JSON
    if in_it or not isinstance(decision, AgentFinish):
        return ""
    return finished_answer(text, marker.end())


def finished_answer(text: str, begin: int = 0) -> str:
    """Extract the answer that starts at `begin`. Like `react_text.finish`, stop before anything made up."""
    ends = [match.start() for marker in (AT_LINE_START, INVENTED) if (match := marker.search(text, begin))]
    end = min(ends) if ends else _certain(text, begin)
    return before_fence(text[begin:end])


def before_fence(text: str) -> str:
    """Return the answer up to a possible start of a fence."""
    return plain_answer(_FENCE_BEGUN.sub("", text))


def _certain(text: str, begin: int) -> int:
    """Return where the last line may begin a marker, or else the end of `text`."""
    line = text.rfind("\n", begin) + 1
    if (line > begin or not begin) and _LINE_BEGUN.fullmatch(text, line):
        return line
    word = _WORD_BEGUN.search(text, max(line, begin))
    return word.start() if word else len(text)
