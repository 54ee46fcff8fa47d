"""Responses and their runs: a run is a response, and one more each time it goes on after what its client said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...store.run_row import RunRow
from ..conversations.views import PREFIXES
from ..wire.objects import Object

KIND = "response"
_RESPONSE = re.compile(r"resp_([0-9a-f]{24})(?:x([1-9][0-9]{0,3}))?")
_ITEM = re.compile(r"[a-z]+_([0-9a-f]{24})p([0-9]{1,4})[io][0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Part:
    """One response of a run: the first (0), or one that goes on with it. What the later ones were asked is in the
    run's `state["parts"]`, with the number of the last event in the log before each (`told`)."""

    run: RunRow
    number: int = 0

    @property
    def id(self) -> str:
        """The response's id."""
        return f"resp_{self.run.id.partition('_')[2]}{f'x{self.number}' if self.number else ''}"

    @property
    def asked(self) -> Mapping[str, Any]:
        """What was asked for, as the response says it again."""
        return self._kept["asked"]  # type: ignore[no-any-return]

    @property
    def input(self) -> list[Object]:
        """The items of its input, with ids."""
        return [self._identified(at, item) for at, item in enumerate(self._kept["input"])]

    @property
    def created_at(self) -> int:
        """In Unix seconds."""
        return int(self._kept["created_at"]) if self.number else self.run.created_at

    @property
    def include(self) -> Sequence[str]:
        """What its request asked to be shown of its items that is not shown else."""
        return self._kept.get("include") or ()

    @property
    def begin(self) -> int:
        """The number of the last event in the log that belongs to the responses before."""
        return int(self._kept["told"]) if self.number else 0

    @property
    def over(self) -> bool:
        """Whether the run went on after it."""
        return self.number < len(parts_of(self.run))

    @property
    def stored(self) -> bool:
        """Whether it can be asked for later."""
        return self.asked["store"] is not False and not self.deleted

    @property
    def deleted(self) -> bool:
        """Whether its client had it forgotten."""
        return self.number in self.run.state.get("deleted", ())

    @property
    def _kept(self) -> Mapping[str, Any]:
        return parts_of(self.run)[self.number - 1] if self.number else self.run.request

    def item_id(self, kind: str, at: int, side: str = "o") -> str:
        """The id of the item at this place of its output, or its input (side "i")."""
        return f"{PREFIXES.get(kind, 'item')}_{self.run.id.partition('_')[2]}p{self.number}{side}{at}"

    def _identified(self, at: int, item: Mapping[str, Any]) -> Object:
        return {"id": self.item_id(item["type"], at, "i"), **item}


def parts_of(run: RunRow) -> list[Mapping[str, Any]]:
    """What is kept of the responses of a run after its first."""
    return list(run.state.get("parts", ()))


def named(id_: str) -> tuple[str, int] | None:
    """The run and the number of the response of this id, if it can be one."""
    found = _RESPONSE.fullmatch(id_)
    return (f"run_{found[1]}", int(found[2] or 0)) if found else None


def item_named(id_: str) -> tuple[str, int] | None:
    """The run and the number of the response that the item of this id belongs to, if it can be one's."""
    found = _ITEM.fullmatch(id_)
    return (f"run_{found[1]}", int(found[2])) if found else None


def part_of(run: RunRow | None, number: int) -> Part | None:
    """The response of this number of a run, if there is one."""
    if run is None or run.request.get("kind") != KIND or number > len(parts_of(run)):
        return None
    return Part(run, number)
