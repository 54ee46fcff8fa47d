"""The environment of the ReAct paper (Yao et al. 2023, section 3.1) over a file of passages: `Search` and `Lookup`.

`Search` returns the first five sentences of the passage of that title, or the five titles most like it. `Lookup`
returns the next sentence of that passage that contains a text, as the browser's Ctrl+F does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..core.tools.tool import Tool
from ..tools.passages import Passages

Environment = Callable[[], list[Tool]]
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_FIRST, _SIMILAR = 5, 5


def search_lookup(path: Path) -> Environment:
    """Return a function that makes the two tools for one run; the runs share the passages, but not the open page.

    Raises `DataError` as `Passages.load` does.
    """
    found = Passages.load(path)
    pages = {_fold_case(one.meta["title"]): one.content for one in found.list_documents()}

    def similar(entity: str) -> list[str]:
        return [str(one.meta["title"]) for one in found.search(entity, _SIMILAR)]

    return lambda: _Browser(pages, similar).make_tools()


class _Browser:
    """The page that a run has open, and where its last search in it ended."""

    def __init__(self, pages: dict[str, str], similar: Callable[[str], list[str]]) -> None:
        self._pages = pages
        self._similar = similar
        self._page: list[str] = []
        self._looked_for, self._shown = "", 0

    def make_tools(self) -> list[Tool]:
        search = (
            "opens the page of an entity (a person, place, work or event) by its exact name, and returns its beginning"
        )
        lookup = "returns the next sentence of the open page that contains a text"
        return [
            Tool("Search", self.search, search, effects="idempotent", polls=True),
            Tool("Lookup", self.find_text, lookup, effects="idempotent", polls=True),
        ]

    def search(self, entity: str) -> str:
        """Open a page, or name those that are like it."""
        text = self._pages.get(_fold_case(entity))
        if text is None:
            return f"Could not find {entity.strip()[:100]}. Similar: {'; '.join(self._similar(entity)) or 'nothing'}."
        self._page, self._looked_for, self._shown = _SENTENCES.split(" ".join(text.split())), "", 0
        return f"[{entity.strip()}] {' '.join(self._page[:_FIRST])}"

    def find_text(self, text: str) -> str:
        """Find a text in the open page; the same text again finds its next occurrence."""
        if not self._page:
            return "No page is open. Search first."
        wanted = _fold_case(text)
        if wanted != self._looked_for:
            self._looked_for, self._shown = wanted, 0
        found = [sentence for sentence in self._page if wanted and wanted in _fold_case(sentence)]
        if self._shown >= len(found):
            return "No more results."
        self._shown += 1
        return f"(Result {self._shown} / {len(found)}) {found[self._shown - 1]}"


def _fold_case(text: str) -> str:
    return " ".join(text.casefold().split())
