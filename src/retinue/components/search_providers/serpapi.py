"""Google, through serpapi.com."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.values import Document
from ...net.service_client import ServiceRequest
from ..web_search import Found, Question, answer, pages, text

_META = {"title": "title", "link": "link", "source": "source", "date": "date"}
_ANSWERS = ("answer", "result", "snippet", "highlighted")  # where a box has its answer, shortest form first
_NOTHING = "hasn't returned any results"


class SerpAPI:
    """The provider."""

    name = "SerpAPI"
    base_url = "https://serpapi.com"
    key_variables: tuple[str, ...] = ("SERPAPI_API_KEY",)
    settings: tuple[str, ...] = ("domains", "language", "country")
    page_size, last_page = 10, 10

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `start` selects further pages by result number."""
        params = {"engine": "google", "q": asked.scoped, "api_key": key}
        start = str((asked.page - 1) * self.page_size) if asked.page > 1 else ""
        more = {"hl": asked.language, "gl": asked.country, "start": start}
        return ServiceRequest("/search.json", params | {name: value for name, value in more.items() if value})

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, unless it reports an empty result."""
        said = text(body.get("error"))
        return "" if _NOTHING in said else said

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box and the organic results."""
        return Found(_answer(body.get("answer_box")), pages(body.get("organic_results"), "snippet", **_META))


def _answer(box: Any) -> Document | None:
    if isinstance(box, list):
        box = box[0] if box else None
    if not isinstance(box, Mapping):
        return None
    words = box.get("snippet_highlighted_words")
    highlighted = words[0] if isinstance(words, list) and words else None
    return answer({**box, "highlighted": highlighted}, _ANSWERS, **_META)
