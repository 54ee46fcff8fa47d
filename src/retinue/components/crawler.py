"""`Crawler`: the pages of a site."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, TypedDict
from urllib.parse import urljoin

from .._internal.concurrency import gather_bounded, run_in_thread
from ..core.component import Component, ComponentReference
from ..core.values import Document
from ..documents.document_store import Store
from ..documents.splitter import split_document
from ..errors import ToolError, UsageError
from ..net.robots import Robots
from ..net.url_policy import PORTS, WebAddress, parse_url, shorten_url
from .link_content import LinkContentFetcher, ReadPage
from .services import check_positive

_AT_ONCE = 2  # requests to the site
_KNOWN = 10  # addresses that are remembered, for each page that may be requested
_PIECE = 1_000  # characters of a piece in the store
_SHOWN = 20  # problems


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
    `LinkContentFetcher`, with its `depth` in `meta`.

    Raises `UsageError` for invalid settings.

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
            await run_in_thread(partial(_store_pages, self._store, crawl.pages))
        return {"documents": crawl.pages, "problems": crawl.problems, "results": _format_results(crawl)}


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


def _format_results(crawl: _Crawl) -> str:
    lines = [
        f"Read {len(crawl.pages)} pages:",
        *(f"{page.meta['title'] or 'page'} ({page.id})" for page in crawl.pages),
    ]
    if crawl.problems:
        lines += ["Not read:", *crawl.problems[:_SHOWN]]
    if (more := len(crawl.problems) - _SHOWN) > 0:
        lines.append(f"… and {more} more")
    return "\n".join(lines)
