"""What the played vendors have in common: the script of the model, a request, a rule, a wire format, a vendor."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Problems = Iterator[str]
Issued = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the played model says next: its thought, its text, and the tools that it calls, with their arguments."""

    thought: str
    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


SCRIPT = (
    Turn(" First the sum:\n2 + 3 – “five”? ", calls=[("add", {"a": 2, "b": 3})]),
    Turn("Then\tanother.\n", "One more.", calls=[("add", {"a": 5, "b": 7})]),
    Turn("Two at once… \u2028", calls=[("add", {"a": 12, "b": 30}), ("look", {"what": "Åbo & <Turku>"})]),
    Turn("That is all.", "The sum is 42."),
)
"""Two calls in a row, two at once, and the answer. It needs the tools `add(a: int, b: int)` and `look(what: str)`."""


@dataclass(slots=True)
class Asked:
    """A request. `traits`: what is special about its model; `issued`: the turns that were sent, by their calls' ids."""

    path: str
    headers: Mapping[str, str]
    body: Json
    query: str = ""
    model: str = ""
    traits: frozenset[str] = frozenset()
    issued: Issued = field(default_factory=dict)

    @property
    def streams(self) -> bool:
        """Whether the reply is to be streamed, by the body or the path."""
        return self.body.get("stream") is True or "stream" in self.path.lower()

    def made(self, *ids: str) -> Any:
        """Return the issued turn with a call of one of these ids, or `None` if it is not of this API."""
        return next((self.issued[one] for one in ids if one in self.issued), None)


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that a vendor wants. `check` yields what is wrong with a request, in the vendor's words.

    `source` says where the vendor documents it, or where somebody reported it.
    """

    name: str
    wants: str
    source: str
    check: Callable[[Asked], Problems]


def make_rules(*checks: Callable[[Asked], Problems]) -> tuple[Rule, ...]:
    """Return a rule for each of `checks`; the last line of the docstring is its source."""
    found = []
    for check in checks:
        *wants, source = (inspect.getdoc(check) or "").splitlines()
        found.append(Rule(check.__name__.replace("_", " "), " ".join(wants), source, check))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format, as a server speaks it.

    `turns`: how many turns of the model a request has since the last message of the user. `tools`: the schemas of the
    offered tools by name. `reply`: a whole reply, and the turns that are to come back, by the ids of their calls.
    `stream`: the reply as the vendor streams it. `error`: status, code and message in the vendor's envelope.
    """

    turns: Callable[[Json], int]
    tools: Callable[[Json], Mapping[str, Json]]
    reply: Callable[[Asked, Turn], tuple[Json, Issued]]
    stream: Callable[[Json], Iterator[bytes]]
    error: Callable[[int, str, str], Any]
    streamed_as: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's API. `root`: the path of its base URL; `path`: a pattern, which may have a group `model`.

    `models`: their traits by name, the first being the default. `failures`: by kind (`too_long`, `rate`,
    `unavailable`, `unknown_model`, `wrong_key`) the status, the code and the message. `refusal`: status and code of
    a broken rule. `key`: the headers that may have the key; none if it needs no key.
    """

    name: str
    root: str
    path: str
    wire: Wire
    models: Mapping[str, str]
    rules: tuple[Rule, ...]
    failures: Mapping[str, tuple[int, str, str]]
    refusal: tuple[int, str] = (400, "invalid_request_error")
    key: str = "authorization"


def read_failures(table: str) -> Mapping[str, tuple[int, str, str]]:
    """Read lines of `kind | status | code | message`."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return {kind: (int(status), code, message) for kind, status, code, message in rows}


def seal(*parts: Any) -> str:
    """Return a text as opaque as a vendor's signature, which follows from `parts`."""
    digest = hashlib.sha512(json.dumps(parts, sort_keys=True, default=str).encode()).digest()
    return base64.b64encode(digest * 3).decode()


def number_of(conversation: Any) -> str:
    """Return eight letters and digits, which follow from the conversation so far, for ids."""
    return re.sub(r"\W", "", seal(conversation))[:8]


def pieces(text: str, size: int = 5) -> list[str]:
    """Return `text` in the pieces in which it is streamed."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def sse(event: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    return f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(event)}\n\n".encode()


def unknown_names(given: Mapping[str, Any], known: str) -> list[str]:
    """Return the names in `given` that are not among the `known` ones."""
    return sorted(set(given) - set(known.split()))
