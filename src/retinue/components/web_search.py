"""`SearchEngine`: web search with a choice of engines; `SerpAPIComponent`: Haystack's name for one of them.

A `Provider` builds an engine's requests and parses its responses; the rest is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit

from .._internal.message_text import suggest_name
from ..core.component import QueryComponent
from ..core.tools.tool import ExampleCall, ToolExample
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest, check_query
from .services import NOTHING_FOUND, Searched, as_list, as_mapping, check_positive, find_key, first_of, read_text

SHOWN = 3  # snippets that a model is shown if there is no answer
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?:/[A-Za-z0-9._~/-]*)?")
_CODE = re.compile(r"[A-Za-z][A-Za-z -]{0,40}")
_ANSWER_WEIGHT = 5  # of an engine's own answer, relative to the best page
_EXAMPLE = ToolExample(
    "After how many minutes is Lumo glue dry?",
    (
        ExampleCall(
            "I need to find out how long Lumo glue takes to dry.",
            "Lumo glue drying time",
            "Lumo wood glue: dry after 62 minutes, waterproof after a day.",
        ),
    ),
    "62",
)


@dataclass(frozen=True, slots=True)
class Question:
    """A query: `count` results in total, of which this is page number `page`, from 1.

    `domains`: where to search, as `docs.python.org` or `github.com/psf`; empty for everywhere. `language` and `country`
    are the engine's own codes, usually of two letters.
    """

    query: str = ""
    count: int = 10
    domains: tuple[str, ...] = ()
    language: str = ""
    country: str = ""
    page: int = 1

    @property
    def scoped(self) -> str:
        """The query in Google's syntax, restricted to the domains."""
        sites = " OR ".join(f"site:{domain}" for domain in self.domains)
        return f"{sites} {self.query}" if sites else self.query


@dataclass(frozen=True, slots=True)
class Found:
    """An engine's results: its own `answer`, if any; `pages`, best first; and other texts `besides`, shown last."""

    answer: Document | None = None
    pages: tuple[Document, ...] = ()
    besides: tuple[Document, ...] = ()


class Provider(Protocol):
    """A search engine: a class with these attributes and methods.

    A result page has `page_size` results, and there are at most `last_page` pages. `settings`: which of `domains`,
    `language` and `country` it supports. Without `key_variables` it needs no key. `{language}` in `base_url` is
    replaced by the language.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...]
    settings: tuple[str, ...]
    page_size: int
    last_page: int

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request."""

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the engine's error message; empty if there is none, or if there are just no results."""

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse the results."""


def read_page(item: Any, snippet: str, position: int, **names: str) -> Document | None:
    """Return the document for one result; its content is the value under `snippet`, or else its title.

    `names` maps further fields of `meta` to the engine's names.
    """
    if not isinstance(item, Mapping):
        return None
    meta = {name: found for name, key in names.items() if (found := read_text(item.get(key)))}
    content = read_text(item.get(snippet)) or meta.get("title", "")
    return Document(content, meta.get("link", ""), {**meta, "position": position}) if content else None


def read_pages(items: Any, snippet: str, **names: str) -> tuple[Document, ...]:
    """Return the documents for a list of results, in order (see `read_page`)."""
    found = (read_page(item, snippet, 0, **names) for item in as_list(items))
    return tuple(document for document in found if document is not None)


def answer(box: Any, keys: Iterable[str], **names: str) -> Document | None:
    """Return the document for an engine's own answer: the first non-empty value under `keys`."""
    box = as_mapping(box)
    return next((read_page(box, key, 0, **names) for key in keys if read_text(box.get(key))), None)


# ── the engines ──────────────────────────────────────────────────────────────────────────────────


class Serper:
    """Google, through serper.dev."""

    name = "Serper"
    base_url = "https://google.serper.dev"
    key_variables: tuple[str, ...] = ("SERPERDEV_API_KEY", "SERPER_API_KEY")
    settings: tuple[str, ...] = ("domains", "language", "country")
    page_size, last_page = 10, 10
    _meta = {"title": "title", "link": "link", "date": "date"}

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `page` selects further pages."""
        page = asked.page if asked.page > 1 else None
        body = {"q": asked.scoped, "hl": asked.language, "gl": asked.country, "page": page}
        body = {name: value for name, value in body.items() if value or name == "q"}
        return ServiceRequest("/search", headers={"X-API-KEY": key}, body=body)

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `message`, which is only present in errors."""
        return read_text(body.get("message"))

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box, shortest form first, and the organic results, plus "people also ask" with its
        answers."""
        box = as_mapping(body.get("answerBox"))
        highlighted = first_of(box.get("snippetHighlighted"))
        box = {**box, "highlighted": highlighted} if highlighted is not None else box
        return Found(
            answer(box, ("answer", "highlighted", "snippet", "title"), **self._meta),
            read_pages(body.get("organic"), "snippet", **self._meta),
            read_pages(body.get("peopleAlsoAsk"), "snippet", question="question", **self._meta),
        )


class SerpAPI:
    """Google, through serpapi.com."""

    name = "SerpAPI"
    base_url = "https://serpapi.com"
    key_variables: tuple[str, ...] = ("SERPAPI_API_KEY",)
    settings: tuple[str, ...] = ("domains", "language", "country")
    page_size, last_page = 10, 10
    _meta = {"title": "title", "link": "link", "source": "source", "date": "date"}
    _answers = ("answer", "result", "snippet", "highlighted")  # where a box has its answer, shortest form first

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `start` selects further pages by result number."""
        start = str((asked.page - 1) * self.page_size) if asked.page > 1 else ""
        more = {"hl": asked.language, "gl": asked.country, "start": start}
        params = {"engine": "google", "q": asked.scoped, "api_key": key}
        return ServiceRequest("/search.json", params | {name: value for name, value in more.items() if value})

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, unless it reports an empty result."""
        said = read_text(body.get("error"))
        return "" if "any results" in said else said

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse Google's answer box, whose page may be in it as `organic_result`, and the organic results."""
        given = body.get("answer_box")
        box = as_mapping(first_of(given) if isinstance(given, list) else given)
        highlighted = first_of(box.get("snippet_highlighted_words"))
        box = {**as_mapping(box.get("organic_result")), **box, "highlighted": highlighted}
        pages = read_pages(body.get("organic_results"), "snippet", **self._meta)
        return Found(answer(box, self._answers, **self._meta), pages)


class SearchAPI(SerpAPI):
    """Google, through searchapi.io, which answers as serpapi.com does."""

    name = "SearchAPI"
    base_url = "https://www.searchapi.io"
    key_variables: tuple[str, ...] = ("SEARCHAPI_API_KEY",)
    _answers = ("answer", "result", "snippet", "title")

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request; `page` selects further pages."""
        page = str(asked.page) if asked.page > 1 else ""
        params = {"engine": "google", "q": asked.scoped, "hl": asked.language, "gl": asked.country, "page": page}
        params = {name: value for name, value in params.items() if value}
        return ServiceRequest("/api/v1/search", params, {"Authorization": f"Bearer {key}"})


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
        most = min(asked.count, self.page_size)
        body: dict[str, Any] = {"query": asked.query, "max_results": most, "include_answer": True}
        body |= {"include_domains": list(asked.domains)} if asked.domains else {}
        body |= {"country": asked.country.lower()} if asked.country else {}
        return ServiceRequest("/search", headers={"Authorization": f"Bearer {key}"}, body=body)

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the error under `detail`: an object with `error`, a list of validation errors, or a text."""
        detail = body.get("detail")
        detail = first_of(detail) if isinstance(detail, list) else detail
        return read_text(detail.get("error") or detail.get("msg")) if isinstance(detail, Mapping) else read_text(detail)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse its answer, which has no page of its own, and the results."""
        pages = read_pages(body.get("results"), "content", title="title", link="url", date="published_date")
        return Found(answer(body, ("answer",)), pages)


class WikipediaSearch:
    """Wikipedia's own search: no key, and the first paragraphs of each article as its snippet.

    The language selects the Wikipedia: `de` queries de.wikipedia.org.
    """

    name = "Wikipedia"
    base_url = "https://{language}.wikipedia.org"
    key_variables: tuple[str, ...] = ()
    settings: tuple[str, ...] = ("language",)
    page_size, last_page = 20, 5
    _params = {
        "action": "query", "format": "json", "formatversion": "2", "generator": "search",
        "prop": "extracts|info", "inprop": "url", "exintro": "1", "explaintext": "1", "exchars": "600",
        "exlimit": "max",
    }  # fmt: skip

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request, with the user agent that its rules require; `gsroffset` selects further pages by result
        number."""
        params = self._params | {"gsrsearch": asked.query, "gsrlimit": str(min(asked.count, self.page_size))}
        if asked.page > 1:
            params["gsroffset"] = str((asked.page - 1) * self.page_size)
        return ServiceRequest("/w/api.php", params, {"User-Agent": "Retinue (search of agents)"})

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the text under `error`, which comes with status 200."""
        error = body.get("error")
        return read_text(error.get("info") or error.get("code")) if isinstance(error, Mapping) else read_text(error)

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse the articles, which are unordered, by their `index`."""
        items = [item for item in as_list(as_mapping(body.get("query")).get("pages")) if isinstance(item, Mapping)]
        items.sort(key=lambda item: index if isinstance(index := item.get("index"), int) else float("inf"))
        return Found(pages=read_pages(items, "extract", title="title", link="fullurl"))


ProviderName = Literal["serper", "searchapi", "serpapi", "tavily", "wikipedia"]
PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "serper": Serper,
    "searchapi": SearchAPI,
    "serpapi": SerpAPI,
    "tavily": Tavily,
    "wikipedia": WikipediaSearch,
}


# ── the components ───────────────────────────────────────────────────────────────────────────────


class SearchEngine(QueryComponent[Searched]):
    """Searches the web.

    The output `documents` has at most `top_k` items, from as many result pages as needed: first the engine's own
    answer, if any, then the web pages. Contents are snippets; `meta` has `title`, `link` and `position` (from 1; 0 for
    an answer). Each `score` falls with the position, and all scores sum to 1. The output `results` is the text for a
    model: the engine's answer, or else the first three snippets, one per line after the page's title. Raises
    `UsageError` without a key, or if the provider does not support a setting.

    Args:
        provider: `serper`, `searchapi` or `serpapi` (Google), `tavily`, `wikipedia`, or a custom `Provider`.
        api_key: By default from the provider's environment variable (`SERPERDEV_API_KEY` or `SERPER_API_KEY`,
            `SEARCHAPI_API_KEY`, `SERPAPI_API_KEY`, `TAVILY_API_KEY`). Wikipedia needs none.
        top_k: Maximum number of documents.
        allowed_domains: Search only there (`docs.python.org`, `github.com/psf`); other results are dropped.
        language: The provider's own code, such as `de`.
        country: The provider's own code, such as `us`.
        base_url: Address of another server.
        seconds: Time limit of a request.
    """

    tool_examples = (_EXAMPLE,)

    def __init__(  # noqa: PLR0913 -- what a search is scoped to stands side by side
        self,
        provider: Annotated[str | Provider, ProviderName] = "serper",
        api_key: str | None = None,
        top_k: int = 10,
        allowed_domains: Iterable[str] = (),
        language: str | None = None,
        country: str | None = None,
        *,
        name: str = "SearchEngine",
        base_url: str | None = None,
        seconds: float = 20.0,
    ) -> None:
        if isinstance(provider, str) and provider not in PROVIDERS:
            raise UsageError(f"{name}: there is no provider {provider!r}; {suggest_name(provider, PROVIDERS)}")
        engine = PROVIDERS[provider]() if isinstance(provider, str) else provider
        key = find_key(engine.name, api_key, engine.key_variables) if engine.key_variables else ""
        check_positive(engine.name, top_k=top_k)
        domains = (allowed_domains,) if isinstance(allowed_domains, str) else tuple(allowed_domains)
        self.given["allowed_domains"] = domains
        self._asked = Question("", top_k, domains, language or "", country or "")
        _check_scope(self._asked, engine, name)
        self.name = name
        self._provider = engine
        address = base_url or engine.base_url.replace("{language}", language or "en")
        self._service = Service(engine.name, address, key, seconds)

    async def run_async(self, query: str) -> Searched:
        """Search the web.

        Raises `ToolError` if the engine cannot be asked or cannot answer, `UsageError` if it refuses the key.
        """
        found = await self._find(query)
        documents = found["documents"]
        weights = [  # as in Haystack v1's `WebSearch`
            (len(documents) - at) * (_ANSWER_WEIGHT if document.meta["position"] == 0 else 1)
            for at, document in enumerate(documents)
        ]
        scored = [replace(one, score=weight / sum(weights)) for one, weight in zip(documents, weights, strict=True)]
        return {"results": found["results"], "documents": scored}

    async def _find(self, query: str) -> Searched:
        """Return the first documents, the engine's own answer before the pages, from as many result pages as needed."""
        provider, asked = self._provider, replace(self._asked, query=check_query(query))
        first, pages = Found(), list[Document]()
        for number in range(1, min(-(-asked.count // provider.page_size), provider.last_page) + 1):
            request = provider.request(replace(asked, page=number), self._service.key)
            status, body, _ = await self._service.answer(request)
            found = self._read(status, body)
            first = found if number == 1 else first
            pages = _drop_repeated([*pages, *(one for one in found.pages if is_within(one, asked.domains))])
            if not found.pages or len(pages) >= asked.count:
                break
        own = [one for one in (first.answer,) if one and is_within(one, asked.domains)]
        pages = _drop_repeated([*pages, *(one for one in first.besides if is_within(one, asked.domains))])
        placed = (replace(one, meta={**one.meta, "position": at}) for at, one in enumerate(pages, 1))
        documents = [*own, *placed][: asked.count]
        shown = [own[0].content] if own else [_format_line(one) for one in documents[:SHOWN]]
        return {"results": "\n".join(shown) or NOTHING_FOUND, "documents": documents}

    def _read(self, status: int, body: Any) -> Found:
        name = self._provider.name
        said = " ".join(self._provider.problem(body).split())[:300] if isinstance(body, Mapping) else ""
        if status in (401, 403):
            raise UsageError(f"{name} refused the {'key' if self._service.key else 'request'}: {said or status}")
        if said or not 200 <= status < 300:
            raise ToolError(f"{name} answered {status}: {said or '(no message)'}")
        if not isinstance(body, Mapping):
            raise ToolError(f"{name} answered with something that is not the JSON of a search")
        return self._provider.read(body)


class SerpAPIComponent(SearchEngine):
    """Searches Google through serpapi.com: Haystack's name for `SearchEngine("serpapi")`.

    The key is `api_key`, or else `SERPAPI_API_KEY` in the environment. Outputs are those of `SearchEngine`, without
    scores. `base_url` is the address of another server; `seconds` is the time limit of a request. `inputs` only accepts
    the root, as in Haystack's Agent proposal, PR 3925; other inputs are set when the component is added to a pipeline.
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
            raise UsageError(f"{name}: set its inputs where it is added: add_node(search, {name!r}, inputs=…)")
        super().__init__("serpapi", api_key, top_k, name=name, base_url=base_url, seconds=seconds)

    async def run_async(self, query: str) -> Searched:
        """Search the web with Google.

        Raises `ToolError` if it cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return await self._find(query)


def _check_scope(asked: Question, provider: Provider, name: str) -> None:
    """Raise `UsageError` for a setting that is invalid, or that the provider does not support."""
    for domain in asked.domains:
        if not _DOMAIN.fullmatch(domain):
            raise UsageError(f"{name}: {domain!r} is not a domain; want docs.python.org, github.com/psf or the like")
    for code in filter(None, (asked.language, asked.country)):
        if not _CODE.fullmatch(code):
            raise UsageError(f"{name}: {code!r} is not the code of a language or country; want one such as 'de'")
    for setting in ("domains", "language", "country"):
        if getattr(asked, setting) and setting not in provider.settings:
            known = f"it supports {', '.join(provider.settings)}" if provider.settings else "it takes only a query"
            raise UsageError(f"{provider.name} does not support {setting}; {known}")


def is_within(document: Document, domains: Collection[str]) -> bool:
    """Return whether the document's link, if any, leads into one of `domains`, which may include a path."""
    link = document.meta.get("link")
    if not domains or not link:
        return True
    try:
        parts = urlsplit(link)
        host = (parts.hostname or "").lower()
    except ValueError:
        return False
    for domain in domains:
        wanted, _, path = domain.lower().rstrip("/").partition("/")
        below = f"/{path}/" if path else "/"
        if (host == wanted or host.endswith(f".{wanted}")) and f"{parts.path}/".lower().startswith(below):
            return True
    return False


def _drop_repeated(documents: Iterable[Document]) -> list[Document]:
    """Return the first document of each link, and those without one; engines repeat results across pages."""
    kept: dict[str | int, Document] = {}
    for at, document in enumerate(documents):
        kept.setdefault(document.id or at, document)
    return list(kept.values())


def _format_line(document: Document) -> str:
    title = document.meta.get("title", "")
    return f"{title}: {document.content}" if title and title != document.content else document.content
