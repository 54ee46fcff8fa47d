"""Responses and their runs: each run is one response, plus another each time it resumes with client input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...store.run_row import RunRow
from ..conversations.items import PREFIXES
from ..http.objects import Object

_RESPONSE = re.compile(r"resp_([0-9a-f]{24})(?:x([1-9][0-9]{0,3}))?")
_ITEM = re.compile(r"[a-z]+_([0-9a-f]{24})p([0-9]{1,4})[io][0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Part:
    """One response of a run: number 0, or that of the submission that resumed it."""

    run: RunRow
    number: int = 0

    @property
    def id(self) -> str:
        """The response's id."""
        return f"resp_{self.run.id.partition('_')[2]}{f'x{self.number}' if self.number else ''}"

    @property
    def asked(self) -> Mapping[str, Any]:
        """The request's parameters, as the response echoes them."""
        asked: Mapping[str, Any] = self._kept("asked")
        return asked

    @property
    def input(self) -> list[Object]:
        """The input items, with ids."""
        return [self._identified(at, item) for at, item in enumerate(self._kept("input"))]

    @property
    def created_at(self) -> int:
        """Creation time in Unix seconds."""
        return self.run.submissions[self.number - 1].at if self.number else self.run.created_at

    @property
    def include(self) -> Sequence[str]:
        """The request's `include`."""
        return self._kept("include") or ()

    @property
    def begin(self) -> int:
        """The number of the last log event of the previous responses."""
        return self.run.submissions[self.number - 1].told if self.number else 0

    @property
    def over(self) -> bool:
        """Whether the run resumed after this response."""
        return self.number < len(self.run.submissions)

    @property
    def stored(self) -> bool:
        """Whether it can be retrieved later."""
        return self.asked["store"] is not False and not self.deleted

    @property
    def deleted(self) -> bool:
        """Whether the client deleted it."""
        return self.number in self.run.deleted

    def _kept(self, name: str) -> Any:
        return getattr(self.run.submissions[self.number - 1], name) if self.number else self.run.request.get(name)

    def item_id(self, kind: str, at: int, side: str = "o") -> str:
        """Return the id of the item at this position of the output (side "o") or input (side "i")."""
        return f"{PREFIXES.get(kind, 'item')}_{self.run.id.partition('_')[2]}p{self.number}{side}{at}"

    def _identified(self, at: int, item: Mapping[str, Any]) -> Object:
        return {"id": self.item_id(item["type"], at, "i"), **item}


def named(id_: str) -> tuple[str, int] | None:
    """Return the run id and number in a response id, or `None`."""
    found = _RESPONSE.fullmatch(id_)
    return (f"run_{found[1]}", int(found[2] or 0)) if found else None


def item_named(id_: str) -> tuple[str, int] | None:
    """Return the run id and response number in an item id, or `None`."""
    found = _ITEM.fullmatch(id_)
    return (f"run_{found[1]}", int(found[2])) if found else None


def part_of(run: RunRow | None, number: int) -> Part | None:
    """Return the response with this number of a run, or `None`."""
    if run is None or run.kind != "response" or number > len(run.submissions):
        return None
    return Part(run, number)
