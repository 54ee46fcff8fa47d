"""Pages of the web: `LinkContentFetcher` reads one, `Crawler` those of a site, and `WebRetriever` those for a query."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypedDict
from urllib.parse import urljoin

from .._internal.concurrency import gather_bounded, run_in_thread
from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_blocking
from ..core.component import Component, ComponentReference, QueryComponent
from ..core.values import Document
from ..documents.document_store import Store
from ..documents.splitter import split_document
from ..documents.text_extraction import extract_text_apart
from ..errors import DataError, ToolError, UsageError
from ..net.robots import FORBIDDEN, MAX_FILE, Robots
from ..net.ssrf_guard import Check, Resolve, SsrfGuard, resolve_host
from ..net.url_policy import PORTS, WebAddress, parse_url, shorten_url
from .services import NOTHING_FOUND, Searched, check_positive

SHOWN = 10_000  # characters of a page that a model is shown
_AT_ONCE = 2  # requests to the site
_KNOWN = 10  # addresses that are remembered, for each page that may be requested
_PIECE = 1_000  # characters of a piece in the store
_SHOWN_PROBLEMS = 20
Mode = Literal["snippet", "document"]
_CACHED = "web_page"  # cache key in `meta`: the requested URL
_MODES = ("snippet", "document")


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page: its text as a document, the links on it as they are written, and its size in bytes."""

    document: Document
    links: tuple[str, ...]
    size: int


class LinkContentFetcher(Component):
    """Fetches a public web page and extracts its text: HTML, PDF, and plain text of all kinds.

    The output `documents` is one document with the whole text. Its id is the requested URL, and its `meta` has `url`
    (the final one after redirects), `title`, `media_type` and `timestamp`. The output `results` is the text for a
    model: title, URL and the first 10,000 characters.

    Args:
        allow: Private servers that may be fetched, each as `host:port`; otherwise only public addresses are.
        ports: Ports permitted on other servers.
        seconds: Time limit for the download, and again for the extraction.
        max_bytes: Size limit of a page.
        resolve: Resolves a host name.
    """

    effects = "read"

    def __init__(
        self,
        allow: Iterable[str] = (),
        ports: Iterable[int] = (80, 443),
        seconds: float = 10.0,
        max_bytes: int = 5_000_000,
        *,
        name: str = "LinkContentFetcher",
        resolve: Resolve = resolve_host,
    ) -> None:
        self.name = name
        self._client = SsrfGuard(
            (allow,) if isinstance(allow, str) else tuple(allow), tuple(ports), seconds, max_bytes, resolve=resolve
        )
        self.given |= {"allow": self._client.allow, "ports": self._client.ports}

    async def run_async(self, url: str) -> Searched:
        """Read a page of the web: its text, from an address such as https://example.com/page.

        Raises `ToolError` if it cannot be had, or has no text.
        """
        document = await self.fetch(url)
        title = document.meta["title"]
        more = len(document.content) - SHOWN
        cut = f"\n… ({more:,} more characters)" if more > 0 else ""
        head = f"{title} ({document.meta['url']})" if title else document.meta["url"]
        return {"results": f"{head}\n\n{document.content[:SHOWN]}{cut}", "documents": [document]}

    def run(self, url: str) -> Searched:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(url))

    async def fetch(self, url: str) -> Document:
        """Fetch the page at `url`. Raises `ToolError`."""
        return (await self.read(url)).document

    async def fetch_robots(self, url: str) -> Robots:
        """Fetch the rules of the site of `url` for programs. Everything is allowed if the server says that there are
        none (4xx), and nothing if it fails. Raises `ToolError` if it does not answer, or may not be asked."""
        page = await replace(self._client, max_bytes=MAX_FILE, any_status=True).get(urljoin(url, "/robots.txt"))
        if 200 <= page.status < 300:
            return Robots.read(page.data.decode("utf-8", "replace"))
        return Robots() if 400 <= page.status < 500 and page.status != 429 else FORBIDDEN

    async def read(self, url: str, check: Check | None = None) -> ReadPage:
        """Fetch the page at `url`, with its links. `check` may refuse an address. Raises `ToolError`."""
        page = await self._client.get(url, check)
        try:
            text = await extract_text_apart(page.data, page.media_type, page.charset, self._client.seconds)
        except DataError as error:
            raise ToolError(f"{shorten_url(url)}: {error}") from error
        if not text.text:
            raise ToolError(f"{shorten_url(url)}: there is no text on this page")
        meta = {
            "url": page.url,
            "title": text.title,
            "media_type": page.media_type,
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return ReadPage(Document(text.text, page.url, meta), text.links, len(page.data))


class Crawled(TypedDict):
    """`documents`: the pages, nearest to the first one first. `problems`: a line for each page that cannot be had.
    `results`: the text for a model, which lists the pages."""

    documents: list[Document]
    problems: list[str]
    results: str


class Crawler(Component):
    """Fetches the page at an address, and the pages of the same site that it leads to.

    Pages of the site are those with the same host and port; `http` and `https` on their usual ports are the same. The
    site's `robots.txt` is heeded, for redirects too, and so is `rel=nofollow`. A document is that of
    `LinkContentFetcher`, with its `depth` in `meta`. Raises `UsageError` for invalid settings.

    Args:
        site: Only pages of this site may be crawled. Set it if a model, or anyone else who is not trusted with the
            whole web, chooses the address.
        fetcher: Fetches the pages.
        store: A document store in which the pages are kept, in pieces of at most 1,000 characters.
        pages: How many may be requested.
        depth: Links between the first page and the last.
        seconds: Time limit. What has been read until then is the result.
        max_bytes: Size limit of all pages together; the fetcher has one for each.
    """

    effects = "read"

    def __init__(  # noqa: PLR0913 -- what it reads, and four limits
        self,
        site: str = "",
        fetcher: LinkContentFetcher | None = None,
        store: Annotated[Store | None, ComponentReference("DocumentStore")] = None,
        pages: int = 20,
        depth: int = 2,
        *,
        seconds: float = 25.0,
        max_bytes: int = 20_000_000,
        name: str = "Crawler",
    ) -> None:
        self.name = name
        check_positive(name, pages=pages, max_bytes=max_bytes)
        if depth < 0:
            raise UsageError(f"{name}: depth must be at least 0, not {depth}")
        if not seconds > 0:
            raise UsageError(f"{name}: seconds must be above 0, not {seconds}")
        try:
            self._site = _name_site(parse_url(site)) if site else ""
        except ToolError as error:
            raise UsageError(f"{name}: site: {error}") from error
        self._shown_site, self._store, self._seconds = site, store, seconds
        self._start_crawl = partial(_Crawl, fetcher or LinkContentFetcher(), pages, depth, max_bytes)

    async def run_async(self, url: str) -> Crawled:
        """Read the pages of a website, from the page at an address such as https://example.com/.

        Raises `ToolError` if that page cannot be had, or may not be read.
        """
        start = parse_url(url)
        if self._site and _name_site(start) != self._site:
            raise ToolError(f"{shorten_url(url)} is not a page of {self._shown_site}, and no other site may be read")
        crawl = self._start_crawl(_name_site(start))
        try:
            async with asyncio.timeout(self._seconds):
                await crawl.run(start)
        except TimeoutError:
            crawl.problems.append(f"not all pages were read: the {self._seconds:g} seconds were over")
        if not crawl.pages:
            raise ToolError(crawl.problems[0])
        if self._store is not None:
            await run_in_thread(_store_pages, self._store, crawl.pages)
        lines = [f"Read {len(crawl.pages)} pages:"]
        lines += [f"{page.meta['title'] or 'page'} ({page.id})" for page in crawl.pages]
        if crawl.problems:
            lines += ["Not read:", *crawl.problems[:_SHOWN_PROBLEMS]]
        if (more := len(crawl.problems) - _SHOWN_PROBLEMS) > 0:
            lines.append(f"… and {more} more")
        return {"documents": crawl.pages, "problems": crawl.problems, "results": "\n".join(lines)}

    def run(self, url: str) -> Crawled:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(url))


@dataclass(slots=True)
class _Crawl:
    """One crawl: breadth first, so that what is near is read before the limits are reached."""

    fetcher: LinkContentFetcher
    max_pages: int
    max_depth: int
    max_bytes: int
    site: str
    pages: list[Document] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    robots: dict[str, Robots] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    waiting: deque[tuple[str, int]] = field(default_factory=deque)

    async def run(self, start: WebAddress) -> None:
        self.waiting.append((str(start), 0))
        self.known.add(str(start))
        left, size = self.max_pages, 0
        while self.waiting and left:
            batch = [self.waiting.popleft() for _ in range(min(_AT_ONCE, len(self.waiting), left))]
            left -= len(batch)
            for (_, depth), page in zip(batch, await gather_bounded(self._read, batch, _AT_ONCE), strict=True):
                if isinstance(page, ReadPage):
                    size += page.size
                    self._add_page(page, depth)
                else:
                    self.problems.append(page)
            if size > self.max_bytes:
                self.problems.append(f"not all pages were read: they are larger than {self.max_bytes:,} bytes")
                return
        if self.waiting:
            self.problems.append(f"not all pages were read: more than {self.max_pages}")

    async def _read(self, item: tuple[str, int]) -> ReadPage | str:
        url, _ = item
        try:
            address = parse_url(url)
            if address.scheme not in self.robots:
                self.robots[address.scheme] = await self.fetcher.fetch_robots(url)
            return await self.fetcher.read(url, self._check)
        except ToolError as error:
            return str(error)

    def _check(self, address: WebAddress) -> None:
        """Raise `ToolError` if the page at `address` may not be read."""
        if _name_site(address) != self.site:
            raise ToolError(f"{shorten_url(str(address))}: leads to another site")
        rules = self.robots.get(address.scheme) or next(iter(self.robots.values()))
        if not rules.is_allowed(address.path):
            raise ToolError(f"{shorten_url(str(address))}: the site's robots.txt asks programs not to read it")

    def _add_page(self, page: ReadPage, depth: int) -> None:
        url = page.document.meta["url"]
        if any(url == one.id for one in self.pages):  # several addresses lead to it
            return
        self.known.add(url)
        self.pages.append(replace(page.document, id=url, meta={**page.document.meta, "depth": depth}))
        for link in page.links if depth < self.max_depth else ():
            try:
                address = parse_url(urljoin(url, link))
            except (ToolError, ValueError):  # not an address of the web
                continue
            is_new = _name_site(address) == self.site and str(address) not in self.known
            if is_new and len(self.known) < _KNOWN * self.max_pages:
                self.known.add(str(address))
                self.waiting.append((str(address), depth + 1))


def _store_pages(store: Store, pages: Sequence[Document]) -> None:
    """Store pages in the place of what was stored of them before."""
    for page in pages:
        store.delete({"url": page.id})
    store.write(split_document(pages, _PIECE))


def _name_site(address: WebAddress) -> str:
    return address.host if address.port in PORTS.values() else f"{address.host}:{address.port}"


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
