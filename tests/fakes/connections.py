"""Every connection that this process tries, seen where none can be missed: an audit hook on `socket.connect`.

    with connections() as seen:
        ...
    assert seen == [("127.0.0.1", 8080)]

While it lasts, only loopback is really connected to; anything else is noted and fails. A hook cannot be taken
away again, so there is one, which does nothing outside of a `with`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

Place = tuple[str, int]
_watchers: list[list[Place]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watchers and isinstance(arguments[1], tuple):
        place = (str(arguments[1][0]), int(arguments[1][1]))
        for seen in _watchers:
            seen.append(place)
        if place[0] not in ("127.0.0.1", "::1"):
            raise ConnectionRefusedError(111, "not connected to in tests")


@cache
def _installed() -> None:
    sys.addaudithook(_hook)


@contextmanager
def connections() -> Iterator[list[Place]]:
    """The addresses and ports that are connected to meanwhile."""
    _installed()
    seen: list[Place] = []
    _watchers.append(seen)
    try:
        yield seen
    finally:
        _watchers.remove(seen)
