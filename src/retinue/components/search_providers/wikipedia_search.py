"""Wikipedia's own search: no key, and the first paragraphs of each article as its snippet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...net.service_client import ServiceRequest
from ..web_search import Found, Question, pages, text

_FIXED = {
    "action": "query", "format": "json", "formatversion": "2", "generator": "search",
    "prop": "extracts|info", "inprop": "url", "exintro": "1", "explaintext": "1", "exchars": "600", "exlimit": "max",
}  # fmt: skip
_META = {"title": "title", "link": "fullurl"}


class WikipediaSearch:
    """The provider. The language selects the Wikipedia: `de` queries de.wikipedia.org."""

    name = "Wikipedia"
    base_url = "https://{language}.wikipedia.org"
    key_variables: tuple[str, ...] = ()
    settings: tuple[str, ...] = ("language",)
    page_size, last_page = 20, 5

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `gsroffset` selects further pages by result number."""
        params = _FIXED | {"gsrsearch": asked.query, "gsrlimit": str(min(asked.count, self.page_size))}
        if asked.page > 1:
            params["gsroffset"] = str((asked.page - 1) * self.page_size)
        return ServiceRequest(
            "/w/api.php", params, {"User-Agent": "Retinue (search of agents)"}
        )  # required by its rules

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, which comes with status 200."""
        error = body.get("error")
        return text(error.get("info") or error.get("code")) if isinstance(error, Mapping) else text(error)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse the articles, which are unordered, by their `index`."""
        query = body.get("query")
        found = query.get("pages") if isinstance(query, Mapping) else None
        items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
        return Found(pages=pages(sorted(items, key=_index), "extract", **_META))


def _index(item: Mapping[str, Any]) -> float:
    index = item.get("index")
    return index if isinstance(index, int) else float("inf")
