"""The reply to "Final Answer:", which should be nothing but the answer: reading it, and showing it as it arrives."""

from __future__ import annotations

import re
from contextlib import suppress

from ..schema import AgentFinish
from .json_reply import answer_begun
from .parsing import AFTER, UnreadableReply, finish, parse, structured
from .showing import finished

_REPEATED = re.compile(r"^\s*+(?:thought[^\n]*\n)?\s*+final[ _]*answer[ \t]*:", re.IGNORECASE)
_ACTION_FIRST = re.compile(rf"[\s>*_#`-]*action{AFTER}", re.IGNORECASE)


def answer_of(text: str) -> AgentFinish:
    """The answer in a reply; without output if there is none. Of JSON that was cut, it is what there is."""
    if text.lstrip().startswith(("{", "[", "`")):
        decision = structured(text, ())
        if decision is None and (begun := answer_begun(text).strip()):
            decision = finish(begun, text)
        if decision is not None:
            return decision if isinstance(decision, AgentFinish) else AgentFinish({}, text)
    if not _ACTION_FIRST.match(text):
        with suppress(UnreadableReply):
            decided = parse(f"Final Answer: {_REPEATED.sub('', text)}", ()).decision
            assert isinstance(decided, AgentFinish)
            return decided
    return AgentFinish({}, text)


def shown(text: str) -> str:
    """What of a reply that is still arriving can be shown as the answer; see `showing`."""
    begins = text.lstrip()[:7].lower()
    if begins.startswith(("{", "[", "`")):
        return finished(answer_begun(text)) if begins[0] == "{" else ""
    if repeated := _REPEATED.match(text):
        return finished(text, repeated.end())
    return "" if begins == "thought" else finished(text)
