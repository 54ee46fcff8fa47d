"""Stand-ins for models behind memories."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable

from retinue import ModelUnavailable
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities, Reply, Usage

_SAID = re.compile(r"User: ([^\n]*)\nFacts:\Z")
_PAIR = re.compile(r"Old: ([^\n]*)\nNew: ([^\n]*)\nOld says:\Z")
_NEWS = re.compile(r"New: ([^\n]*)\nSummary:\Z")
_ABOUT = {"lives": "home", "moved": "home", "works": "work", "likes": "likes", "will": "plans"}


class Replying:
    """A model that says what `answer` makes of a prompt. `asked` are the prompts; while `gate` is shut, it waits;
    while it is `down`, it cannot be reached."""

    name = "replying"

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.was_asked = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.down = False

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(constrains=True)

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request.prompt.text)
        self.was_asked.set()
        if not self.gate.is_set():
            await asyncio.to_thread(self.gate.wait)
        if self.down:
            raise ModelUnavailable("the model is down")
        yield Reply(self._answer(request.prompt.text), Usage(1, 1, 0, 1))


def literal(prompt: str) -> str:
    """Extracts "Greta lives in Oslo." as it stands; "I" is the user. What lives or works, does so in one place."""
    if found := _SAID.search(prompt):
        rows = [row for sentence in found[1].split(". ") for row in _row(sentence.rstrip("."))]
        return json.dumps(rows)
    if found := _PAIR.search(prompt):
        changed = {_verb(found[1]), _verb(found[2])} in ({"lives"}, {"lives", "moved"}, {"works"})
        return f" one thing. New says: another. -> {'outdated' if changed else 'still true'}"
    if found := _NEWS.search(prompt):
        return json.dumps({"summary": f"in short: {found[1]}"})
    return "nothing"


def _row(sentence: str) -> list[list[str]]:
    found = re.fullmatch(r"(I|[A-Z]\w+) (?:am|(\w+))\b ?([^?]*)", sentence)
    if not found:
        return []
    fact = f"{found[2] or 'is'} {found[3]}".strip()
    name = "User" if found[1] == "I" else found[1]
    return [[name, "person", fact, _ABOUT.get(found[2] or "", "other")]]


def _verb(fact: str) -> str:
    return fact.partition(" ")[0]
