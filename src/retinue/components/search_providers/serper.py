"""Google, through serper.dev."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...net.service_client import ServiceRequest
from ..web_search import Found, Question, answer, pages, text

_META = {"title": "title", "link": "link", "date": "date"}
_ANSWERS = ("answer", "highlighted", "snippet", "title")  # shortest form first


class Serper:
    """The provider."""

    name = "Serper"
    base_url = "https://google.serper.dev"
    key_variables: tuple[str, ...] = ("SERPERDEV_API_KEY", "SERPER_API_KEY")
    settings: tuple[str, ...] = ("domains", "language", "country")
    page_size, last_page = 10, 10

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `page` selects further pages."""
        body: dict[str, Any] = {"q": asked.scoped}
        body |= {name: value for name, value in (("hl", asked.language), ("gl", asked.country)) if value}
        body |= {"page": asked.page} if asked.page > 1 else {}
        return ServiceRequest("/search", headers={"X-API-KEY": key}, body=body)

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `message`, which is only present in errors."""
        return text(body.get("message"))

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box and the organic results, plus "people also ask" with its answers."""
        box, items = body.get("answerBox"), body.get("organic")
        if isinstance(box, Mapping) and isinstance(words := box.get("snippetHighlighted"), list) and words:
            box = {**box, "highlighted": words[0]}
        asked = pages(body.get("peopleAlsoAsk"), "snippet", question="question", **_META)
        return Found(answer(box, _ANSWERS, **_META), pages(items, "snippet", **_META), asked)
