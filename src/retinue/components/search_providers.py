"""Search engines: how to query each, and how to parse its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from ..core.values import Document
from ..net.service_client import ServiceRequest
from .web_search import Found, Provider, Question, answer, read_pages, read_text

_SERPER_META = {"title": "title", "link": "link", "date": "date"}
_SERPER_ANSWERS = ("answer", "highlighted", "snippet", "title")  # shortest form first


class Serper:
    """Google, through serper.dev."""

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
        return read_text(body.get("message"))

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box and the organic results, plus "people also ask" with its answers."""
        box, items = body.get("answerBox"), body.get("organic")
        if isinstance(box, Mapping) and isinstance(words := box.get("snippetHighlighted"), list) and words:
            box = {**box, "highlighted": words[0]}
        asked = read_pages(body.get("peopleAlsoAsk"), "snippet", question="question", **_SERPER_META)
        return Found(answer(box, _SERPER_ANSWERS, **_SERPER_META), read_pages(items, "snippet", **_SERPER_META), asked)


_SEARCHAPI_META = {"title": "title", "link": "link", "source": "source", "date": "date"}
_SEARCHAPI_ANSWERS = ("answer", "result", "snippet", "title")


class SearchAPI:
    """Google, through searchapi.io."""

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
        said = read_text(body.get("error"))
        return "" if "any results" in said else said

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box, whose page may be in it as `organic_result`, and the organic results."""
        box = body.get("answer_box")
        if isinstance(box, Mapping) and isinstance(box.get("organic_result"), Mapping):
            box = {**box["organic_result"], **box}
        return Found(
            answer(box, _SEARCHAPI_ANSWERS, **_SEARCHAPI_META),
            read_pages(body.get("organic_results"), "snippet", **_SEARCHAPI_META),
        )


_SERPAPI_META = {"title": "title", "link": "link", "source": "source", "date": "date"}
_SERPAPI_ANSWERS = ("answer", "result", "snippet", "highlighted")  # where a box has its answer, shortest form first
_SERPAPI_NOTHING = "hasn't returned any results"


class SerpAPI:
    """Google, through serpapi.com."""

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
        said = read_text(body.get("error"))
        return "" if _SERPAPI_NOTHING in said else said

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box and the organic results."""
        return Found(
            _answer(body.get("answer_box")), read_pages(body.get("organic_results"), "snippet", **_SERPAPI_META)
        )


def _answer(box: Any) -> Document | None:
    if isinstance(box, list):
        box = box[0] if box else None
    if not isinstance(box, Mapping):
        return None
    words = box.get("snippet_highlighted_words")
    highlighted = words[0] if isinstance(words, list) and words else None
    return answer({**box, "highlighted": highlighted}, _SERPAPI_ANSWERS, **_SERPAPI_META)


_TAVILY_META = {"title": "title", "link": "url", "date": "published_date"}


class Tavily:
    """Tavily, a search engine for models. It has no pages: one request returns up to 20 results. A country is given by
    its English name."""

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
        return read_text(detail.get("error") or detail.get("msg")) if isinstance(detail, Mapping) else read_text(detail)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse its answer, which has no page of its own, and the results."""
        return Found(answer(body, ("answer",)), read_pages(body.get("results"), "content", **_TAVILY_META))


_WIKIPEDIA_FIXED = {
    "action": "query", "format": "json", "formatversion": "2", "generator": "search",
    "prop": "extracts|info", "inprop": "url", "exintro": "1", "explaintext": "1", "exchars": "600", "exlimit": "max",
}  # fmt: skip
_WIKIPEDIA_META = {"title": "title", "link": "fullurl"}


class WikipediaSearch:
    """Wikipedia's own search: no key, and the first paragraphs of each article as its snippet.

    The language selects the Wikipedia: `de` queries de.wikipedia.org.
    """

    name = "Wikipedia"
    base_url = "https://{language}.wikipedia.org"
    key_variables: tuple[str, ...] = ()
    settings: tuple[str, ...] = ("language",)
    page_size, last_page = 20, 5

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `gsroffset` selects further pages by result number."""
        params = _WIKIPEDIA_FIXED | {"gsrsearch": asked.query, "gsrlimit": str(min(asked.count, self.page_size))}
        if asked.page > 1:
            params["gsroffset"] = str((asked.page - 1) * self.page_size)
        return ServiceRequest(
            "/w/api.php", params, {"User-Agent": "Retinue (search of agents)"}
        )  # required by its rules

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, which comes with status 200."""
        error = body.get("error")
        return read_text(error.get("info") or error.get("code")) if isinstance(error, Mapping) else read_text(error)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse the articles, which are unordered, by their `index`."""
        query = body.get("query")
        found = query.get("pages") if isinstance(query, Mapping) else None
        items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
        return Found(pages=read_pages(sorted(items, key=_index), "extract", **_WIKIPEDIA_META))


def _index(item: Mapping[str, Any]) -> float:
    index = item.get("index")
    return index if isinstance(index, int) else float("inf")


ProviderName = Literal["serper", "searchapi", "serpapi", "tavily", "wikipedia"]
PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "serper": Serper,
    "searchapi": SearchAPI,
    "serpapi": SerpAPI,
    "tavily": Tavily,
    "wikipedia": WikipediaSearch,
}
