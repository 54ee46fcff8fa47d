"""Tavily, a search engine for models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...net.service_client import ServiceRequest
from ..web_search import Found, Question, answer, pages, text

_META = {"title": "title", "link": "url", "date": "published_date"}


class Tavily:
    """The provider. It has no pages: one request returns up to 20 results. A country is given by its English name."""

    name = "Tavily"
    base_url = "https://api.tavily.com"
    key_variables: tuple[str, ...] = ("TAVILY_API_KEY",)
    settings: tuple[str, ...] = ("domains", "country")
    page_size, last_page = 20, 1

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request, with native domain filters, and with Tavily's generated answer."""
        body: dict[str, Any] = {
            "query": asked.query,
            "max_results": min(asked.count, self.page_size),
            "include_answer": True,
        }
        body |= {"include_domains": list(asked.domains)} if asked.domains else {}
        body |= {"country": asked.country.lower()} if asked.country else {}
        return ServiceRequest("/search", headers={"Authorization": f"Bearer {key}"}, body=body)

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the error under `detail`: an object with `error`, a list of validation errors, or a text."""
        detail = body.get("detail")
        if isinstance(detail, list):
            detail = detail[0] if detail else None
        return text(detail.get("error") or detail.get("msg")) if isinstance(detail, Mapping) else text(detail)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse its answer, which has no page of its own, and the results."""
        return Found(answer(body, ("answer",)), pages(body.get("results"), "content", **_META))
