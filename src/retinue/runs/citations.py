"""Citations in answers: the model copies the marks of file search passages, and each mark resolves to a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.events import Called, Event, Observed

FILE_SEARCH = "file_search"
MARK = re.compile(r"【[0-9]{1,3}†[^【】]{0,80}】")


class Source(NamedTuple):
    """The file that a citation mark refers to."""

    file_id: str
    file_name: str


def mark(number: int, name: str) -> str:
    """Return the mark with which the model cites passage `number` of the file `name`."""
    shown = re.sub(r"[【】†\s]+", " ", name).strip()
    return f"【{number}†{shown[:80]}】"


def passages_in(output: str) -> list[dict[str, Any]]:
    """Return the passages in the output of a file search; empty if the search failed."""
    try:
        found = json.loads(output)["results"]
    except (ValueError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) else []


class Citations:
    """Collects the citation marks of a run's file searches; `sources` maps each mark to its file. `request` is the
    run's."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._searches = any(one.get("type") == FILE_SEARCH for one in request.get("tools") or ())
        self._calls: set[str] = set()
        self.sources: dict[str, Source] = {}

    def see(self, event: Event) -> None:
        """Record the marks that an event of the run's log introduces."""
        match event:
            case Called(action=action) if self._searches and action.tool == FILE_SEARCH:
                self._calls.add(action.id)
            case Observed(observation=seen) if seen.call_id in self._calls:
                self.sources |= {
                    one["cite"]: Source(one["file_id"], one["file_name"]) for one in passages_in(seen.text)
                }

    def annotations(self, text: str) -> list[dict[str, Any]]:
        """Return the citation marks in `text` as OpenAI annotations."""
        return [
            {
                "type": "file_citation",
                "text": found[0],
                "start_index": found.start(),
                "end_index": found.end(),
                "file_citation": {"file_id": self.sources[found[0]].file_id},
            }
            for found in (MARK.finditer(text) if self.sources else ())
            if found[0] in self.sources
        ]
