"""The path of runs by which a run was called over the network: passed on in a header, so that circles are refused."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

HEADER = "X-Retinue-Callers"
MAX_CALLERS = 5  # runs that call each other over the network
_LONGEST = 4_000  # characters of the header
_PART = re.compile(r"[A-Za-z0-9._~%-]*")


class Caller(NamedTuple):
    """A run on the path: its server, its agent, itself, and its thread (empty: none)."""

    server: str
    agent: str
    run: str = ""
    thread: str = ""

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in self)


class Incoming(NamedTuple):
    """A call that came over the network: to which server, and by which path."""

    server: str
    callers: tuple[Caller, ...]

    def refusal(self, agent: str) -> str:
        """Return why `agent` may not be called, or an empty string."""
        path = " → ".join([*(one.agent for one in self.callers), agent])
        if any((one.server, one.agent) == (self.server, agent) for one in self.callers):
            return f"The agent '{agent}' is among its own callers ({path}); agents must not call in a circle."
        if len(self.callers) > MAX_CALLERS:
            return f"There are {len(self.callers)} callers ({path}); the most is {MAX_CALLERS}."
        return ""


def parse_callers(text: str) -> tuple[Caller, ...]:
    """Return the path in a header. Raises `ValueError` if it is none, or too long."""
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST:,} characters")
    found = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        parts = item.split("/")
        if len(parts) != len(Caller._fields) or not all(map(_PART.fullmatch, parts)):
            raise ValueError(f"{item[:80]!r} is not SERVER/AGENT/RUN/THREAD")
        found.append(Caller(*map(unquote, parts)))
    return tuple(found)
