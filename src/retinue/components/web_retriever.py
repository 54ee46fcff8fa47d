"""`WebRetriever`: retrieves documents from the web for a query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, Protocol

from .._internal.concurrency import gather_bounded, run_in_thread
from .._internal.message_text import suggest_name
from ..core.component import ComponentReference, QueryComponent
from ..core.values import Document
from ..documents.document_store import Store
from ..documents.splitter import split_document
from ..errors import ToolError, UsageError
from .link_content import LinkContentFetcher
from .services import NOTHING_FOUND, Searched, check_positive

Mode = Literal["snippet", "document"]
_CACHED = "web_page"  # cache key in `meta`: the requested URL
_MODES = ("snippet", "document")


class PageSearch(Protocol):
    """Finds pages: `SearchEngine`, `SerpAPIComponent`, or similar."""

    async def run_async(self, query: str) -> Searched:
        """Pages as documents, best first: snippets as contents, `title`, `link` and `position` in `meta`."""


class PageFilter(Protocol):
    """Orders or filters documents: `Ranker`, `TopPSampler`, or similar."""

    async def run_async(self, query: str, documents: list[Document]) -> Mapping[str, Any]:
        """The documents that stay, best first, as `documents`."""


@dataclass(frozen=True, slots=True)
class RetrievalLimits:
    """Limits of a retrieval: `seconds` for all pages together, `at_once` pages at a time."""

    seconds: float = 20.0
    at_once: int = 10


class WebRetriever(QueryComponent[Searched]):
    """Retrieves documents from the web for a query.

    Documents are in the order of the search, and a page's pieces in their own. `ranker` and `sampler`, if any, are
    applied next, and the result is cut to `top_k`; without a ranker it is mostly the beginning of the first page.
    `meta` has `url`, `title`, `position` and possibly `search_score`; a piece also has `part` and `timestamp`, the time
    its page was fetched. The output `results` is the text for a model: the documents, each after its source.

    Args:
        mode: `snippet` returns the snippets of the first `top_search_results` hits of `search_engine`; `document`
            returns the pages themselves, in pieces of at most `size` characters.
        fetcher: Fetches the pages concurrently. A page that cannot be fetched in time (`limits`) is represented by its
            snippet. The engine's own answer is kept unchanged, as the first document.
        cache: A document store that caches pages for `cache_seconds`.
    """

    def __init__(  # noqa: PLR0913 -- the parts of Haystack's retriever
        self,
        search_engine: Annotated[PageSearch, ComponentReference("SearchEngine", "SerpAPIComponent")],
        mode: Mode = "snippet",
        top_k: int = 5,
        top_search_results: int = 10,
        ranker: Annotated[PageFilter | None, ComponentReference("Ranker")] = None,
        sampler: Annotated[PageFilter | None, ComponentReference("TopPSampler")] = None,
        cache: Annotated[Store | None, ComponentReference("DocumentStore")] = None,
        cache_seconds: float = 86_400,
        *,
        fetcher: LinkContentFetcher | None = None,
        size: int = 1_000,
        limits: RetrievalLimits = RetrievalLimits(),
        name: str = "WebRetriever",
    ) -> None:
        if mode not in _MODES:
            raise UsageError(f"{name}: there is no mode {mode!r}; {suggest_name(mode, _MODES)}")
        check_positive(name, top_k=top_k, top_search_results=top_search_results, size=size)
        self.name = name
        self._search = search_engine
        self._sieves = [sieve for sieve in (ranker, sampler) if sieve is not None]
        self._fetcher, self._cache, self._cache_seconds = fetcher or LinkContentFetcher(), cache, cache_seconds
        self._mode, self._top_k, self._hits, self._size, self._limits = mode, top_k, top_search_results, size, limits

    async def run_async(self, query: str) -> Searched:
        """Find texts on the web.

        Raises `ToolError` if the search cannot be asked or cannot answer, `UsageError` if it refuses the key.
        """
        found = await self._search.run_async(query)
        hits = [_with_source(document) for document in found["documents"][: self._hits]]
        if self._mode == "document":
            until = asyncio.get_running_loop().time() + self._limits.seconds
            pages = await gather_bounded(partial(self._fetch_page, until), hits, self._limits.at_once)
            documents = [piece for page in pages for piece in split_document([page], self._size)]
        else:
            documents = hits
        for sieve in self._sieves:
            documents = (await sieve.run_async(query=query, documents=documents))["documents"]
        documents = documents[: self._top_k]
        return {"results": _format_results(documents), "documents": documents}

    async def _fetch_page(self, until: float, hit: Document) -> Document:
        """Return the page of `hit`, or `hit` itself if that fails by the deadline `until` on the loop's clock."""
        url = hit.meta["url"]
        if not url or hit.meta["position"] == 0:
            return hit
        try:
            async with asyncio.timeout_at(until):
                page = await self._find_or_fetch(url)
        except (ToolError, TimeoutError):
            return hit
        own = {"timestamp": page.meta["timestamp"]} | ({} if hit.meta.get("title") else {"title": page.meta["title"]})
        return replace(hit, content=page.content, meta={**hit.meta, **own})

    async def _find_or_fetch(self, url: str) -> Document:
        if self._cache is None:
            return await self._fetcher.fetch(url)
        for kept in await run_in_thread(self._cache.filter, {_CACHED: url}):
            return kept
        page = await self._fetcher.fetch(url)
        kept = replace(page, id=f"{_CACHED}:{url}", meta={**page.meta, _CACHED: url})
        await run_in_thread(partial(self._cache.write, [kept], expires=time.time() + self._cache_seconds))
        return page


def _with_source(found: Document) -> Document:
    """Return a search result with its source in `meta`."""
    meta = {name: value for name, value in found.meta.items() if name != "link"}
    scored = {} if found.score is None else {"search_score": found.score}
    return replace(found, meta={"url": found.meta.get("link", ""), "title": "", "position": 0, **meta, **scored})


def _format_results(documents: list[Document]) -> str:
    texts = []
    for number, document in enumerate(documents, 1):
        source = " ".join(filter(None, (document.meta["title"], document.meta["url"])))
        texts.append(f"[{number}] {source}\n{document.content}" if source else f"[{number}] {document.content}")
    return "\n\n".join(texts) or NOTHING_FOUND
