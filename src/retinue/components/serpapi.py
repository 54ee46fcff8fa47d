"""`SerpAPIComponent`: Google, through serpapi.com."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..batches import in_order
from ..blocking import blocking
from ..errors import UsageError
from ..schema import Document
from .fetching import Request
from .searching import Found, Search, Searched, page, pages, text

_META = {"title": "title", "link": "link", "source": "source", "date": "date"}
_ANSWERS = ("answer", "result", "snippet")  # where a box has its answer: the shortest form first
_NOTHING = "hasn't returned any results"


class SerpAPIComponent:
    """Searches the web with Google, through serpapi.com.

    The key is `api_key`, else in `SERPAPI_API_KEY`. Its output `documents` are `top_k` at most: Google's
    answer box first, if there is one, then the pages, with their snippets as contents and `title`, `link`
    and `position` in `meta`. Its output `results` is the text that a model is shown: what the answer box says,
    else the first three snippets, one a line after the title of its page. `base_url` is for an address of
    one's own, `seconds` the time that a search may take. Of `inputs` only the root's, as in seed 000, can
    be said here; others are said where the component is added to a pipeline.

    Raises `UsageError` without a key.
    """

    def __init__(
        self,
        api_key: str | None = None,
        top_k: int = 10,
        *,
        name: str = "SerpAPIComponent",
        inputs: Iterable[str] = ("Query",),
        base_url: str | None = None,
        seconds: float = 20.0,
    ) -> None:
        if list(inputs) != ["Query"]:
            raise UsageError(f"{name}: say its inputs where it is added: add_node(search, {name!r}, inputs=…)")
        self.name = name
        self.given = {"api_key": api_key, "top_k": top_k, "base_url": base_url, "seconds": seconds}  # for a file
        self._search = Search(_SerpAPI(), api_key, top_k, base_url, seconds)

    async def run_async(self, query: str) -> Searched:
        """Search the web with Google.

        Raises `ToolError` if it cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return await self._search.find(query)

    def run(self, query: str) -> Searched:
        """`run_async`, blocking."""
        return blocking(self.run_async(query))

    async def run_batch_async(self, queries: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """`run_async` for each query, at most `at_once` at a time; results in their order."""
        return await in_order(self.run_async, queries, at_once)

    def run_batch(self, queries: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """`run_batch_async`, blocking."""
        return blocking(self.run_batch_async(queries, at_once=at_once))


class _SerpAPI:
    """The provider."""

    name = "SerpAPI"
    base_url = "https://serpapi.com"
    key_variable = "SERPAPI_API_KEY"

    def request(self, query: str, key: str) -> Request:
        return Request("/search.json", {"engine": "google", "q": query, "api_key": key})

    def problem(self, body: Mapping[str, Any]) -> str:
        said = text(body.get("error"))
        return "" if _NOTHING in said else said  # a search that finds nothing is a success, and says so here

    def read(self, body: Mapping[str, Any]) -> Found:
        return Found(_answer(body.get("answer_box")), pages(body.get("organic_results"), "snippet", **_META))


def _answer(box: Any) -> Document | None:
    if isinstance(box, list):
        box = box[0] if box else None
    if not isinstance(box, Mapping):
        return None
    for key in _ANSWERS:
        if text(box.get(key)):
            return page(box, key, 0, **_META)
    words = box.get("snippet_highlighted_words")
    if isinstance(words, list) and words:
        return page({**box, "words": words[0]}, "words", 0, **_META) if text(words[0]) else None
    return None
