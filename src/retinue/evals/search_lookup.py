"""The environment of the ReAct paper (Yao et al. 2023, section 3.1) over a file of passages: `Search` and `Lookup`.

`Search` returns the first five sentences of the passage of that title, or the five titles most like it. `Lookup`
returns the next sentence of that passage that contains a text, as the browser's Ctrl+F does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
    passages = Passages.load(path)
    pages = {_fold_case(one.meta["title"]): one.content for one in passages.list_documents()}
    return lambda: _make_tools(passages, pages)


def _make_tools(passages: Passages, pages: Mapping[str, str]) -> list[Tool]:
    page: list[str] = []  # the sentences of the open page
    looked_for, shown = "", 0  # in it

    def search(entity: str) -> str:
        nonlocal page, looked_for, shown
        text = pages.get(_fold_case(entity))
        if text is None:
            similar = "; ".join(str(one.meta["title"]) for one in passages.search(entity, _SIMILAR))
            return f"Could not find {entity.strip()[:100]}. Similar: {similar or 'nothing'}."
        page, looked_for, shown = _SENTENCES.split(" ".join(text.split())), "", 0
        return f"[{entity.strip()}] {' '.join(page[:_FIRST])}"

    def look_up(text: str) -> str:
        nonlocal looked_for, shown
        if not page:
            return "No page is open. Search first."
        wanted = _fold_case(text)
        if wanted != looked_for:
            looked_for, shown = wanted, 0
        found = [sentence for sentence in page if wanted and wanted in _fold_case(sentence)]
        if shown >= len(found):
            return "No more results."
        shown += 1
        return f"(Result {shown} / {len(found)}) {found[shown - 1]}"

    opens = "opens the page of an entity (a person, place, work or event) by its exact name, and returns its beginning"
    finds = "returns the next sentence of the open page that contains a text"
    return [
        Tool("Search", search, opens, effects="idempotent", polls=True),
        Tool("Lookup", look_up, finds, effects="idempotent", polls=True),
    ]


def _fold_case(text: str) -> str:
    return " ".join(text.casefold().split())
