"""Google, through searchapi.io."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...net.service_client import ServiceRequest
from ..web_search import Found, Question, answer, pages, text

_META = {"title": "title", "link": "link", "source": "source", "date": "date"}
_ANSWERS = ("answer", "result", "snippet", "title")


class SearchAPI:
    """The provider."""

    name = "SearchAPI"
    base_url = "https://www.searchapi.io"
    key_variables: tuple[str, ...] = ("SEARCHAPI_API_KEY",)
    settings: tuple[str, ...] = ("domains", "language", "country")
    page_size, last_page = 10, 10

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `page` selects further pages."""
        page = str(asked.page) if asked.page > 1 else ""
        params = {"engine": "google", "q": asked.scoped, "hl": asked.language, "gl": asked.country, "page": page}
        return ServiceRequest(
            "/api/v1/search",
            {name: value for name, value in params.items() if value},
            {"Authorization": f"Bearer {key}"},
        )

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, unless it reports an empty result, as SerpAPI does."""
        said = text(body.get("error"))
        return "" if "any results" in said else said

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box, whose page may be in it as `organic_result`, and the organic results."""
        box = body.get("answer_box")
        if isinstance(box, Mapping) and isinstance(box.get("organic_result"), Mapping):
            box = {**box["organic_result"], **box}
        return Found(answer(box, _ANSWERS, **_META), pages(body.get("organic_results"), "snippet", **_META))
