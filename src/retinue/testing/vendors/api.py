"""What the played vendors have in common: the script of the model, a request, a rule, a vendor."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
Problems = Iterator[str]


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
    issued: Mapping[str, Any] = field(default_factory=dict)

    @property
    def streams(self) -> bool:
        """Whether the reply is to be streamed, by the body or the path."""
        return self.body.get("stream") is True or "stream" in self.path.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that a vendor wants. `check` yields what is wrong with a request, in the vendor's words.

    `source` says where the vendor documents it, or where somebody reported it.
    """

    name: str
    wants: str
    source: str
    check: Callable[[Asked], Problems]


def rules(*checks: Callable[[Asked], Problems]) -> tuple[Rule, ...]:
    """Return a rule for each of `checks`; the last line of the docstring is its source."""
    found = []
    for check in checks:
        *wants, source = (inspect.getdoc(check) or "").splitlines()
        found.append(Rule(check.__name__.replace("_", " "), " ".join(wants).strip(), source.strip(), check))
    return tuple(found)


class Wire(Protocol):
    """A wire format, as a server speaks it."""

    streamed_as: str

    def turns(self, body: Json) -> int:
        """Return how many turns of the model there are since the last message of the user."""

    def tools(self, body: Json) -> Mapping[str, Json]:
        """Return the schemas of the offered tools by name."""

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        """Return a whole reply, and the turns that are to come back, by the ids of their calls."""

    def stream(self, reply: Json) -> Iterator[bytes]:
        """Yield the events of the reply, as the vendor streams it."""

    def error(self, status: int, code: str, message: str) -> Any:
        """Return an error in the vendor's envelope."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's API. `root`: the path of its base URL; `path`: a pattern, which may have a group `model`.

    `models`: their traits by name, the first being the default. `failures`: by kind (`too_long`, `rate`,
    `unavailable`, `unknown_model`, `wrong_key`) the status, the code and the message. `refusal`: status and code of
    a broken rule. `key`: the header with the key.
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


def seal(*parts: Any) -> str:
    """Return a text as opaque as a vendor's signature, which follows from `parts`."""
    digest = hashlib.sha512(json.dumps(parts, sort_keys=True, default=str).encode()).digest()
    return base64.b64encode(digest * 3).decode()


def pieces(text: str, size: int = 5) -> list[str]:
    """Return `text` in the pieces in which it is streamed."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def sse(event: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    return f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(event)}\n\n".encode()


def unknown(given: Mapping[str, Any], known: str) -> list[str]:
    """Return the names in `given` that are not among the `known` ones."""
    return sorted(set(given) - set(known.split()))


def parallel(schema: Any, refused: str, at: str = "") -> Iterator[str]:
    """Yield where `schema` uses one of the `refused` keywords."""
    for name, value in schema.items() if isinstance(schema, dict) else ():
        if name in refused.split() and not at.endswith("properties"):
            yield f"{at}.{name}".strip(".")
        yield from parallel(value, refused, f"{at}.{name}".strip("."))
    for number, value in enumerate(schema if isinstance(schema, list) else ()):
        yield from parallel(value, refused, f"{at}.{number}")


def numbers_of(schema: Json, question: str) -> Json:
    """Return arguments for a tool that no script calls: the numbers in `question`, in order."""
    found = iter(re.findall(r"\d+", question))
    return {
        name: int(next(found, 0)) for name, kind in schema.get("properties", {}).items() if kind["type"] == "integer"
    }
