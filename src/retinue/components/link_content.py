"""`LinkContentFetcher`: the text of a web page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from .._internal.concurrency import gather_bounded
from .._internal.sync_bridge import run_blocking
from ..core.values import Document
from ..documents.text_subprocess import text_apart
from ..errors import DataError, ToolError
from ..net.ssrf_guard import Resolve, SsrfGuard, resolve_host
from ..net.url_policy import url_excerpt
from .web_search import Searched

SHOWN = 10_000  # characters of a page that a model is shown


class LinkContentFetcher:
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
        self._client = SsrfGuard(tuple(allow), tuple(ports), seconds, max_bytes, resolve=resolve)
        self.given = {
            "allow": self._client.allow, "ports": self._client.ports, "seconds": seconds, "max_bytes": max_bytes,
        }  # for export  # fmt: skip

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

    async def run_batch_async(self, urls: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """Call `run_async` for each URL, at most `at_once` at a time. Results are in the order of the URLs."""
        return await gather_bounded(self.run_async, urls, at_once)

    def run_batch(self, urls: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(urls, at_once=at_once))

    async def fetch(self, url: str) -> Document:
        """Fetch the page at `url`. Raises `ToolError`."""
        page = await self._client.get(url)
        try:
            text = await text_apart(page.data, page.media_type, page.charset, self._client.seconds)
        except DataError as error:
            raise ToolError(f"{url_excerpt(url)}: {error}") from error
        if not text.text:
            raise ToolError(f"{url_excerpt(url)}: there is no text on this page")
        meta = {
            "url": page.url,
            "title": text.title,
            "media_type": page.media_type,
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return Document(text.text, page.url, meta)
