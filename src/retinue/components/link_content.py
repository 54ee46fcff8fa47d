"""`LinkContentFetcher`: the text of a page of the web."""

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
    """Fetches a page of the public web and takes the text out of it: HTML, PDF, and plain text of all kinds.

    Only public addresses are fetched, whoever names them; of private ones those in `allow`, each as
    `host:port`. `ports` are those that other servers may be asked at. A page may take `seconds` to come and
    as many to be read, and have `max_bytes`. `resolve` looks a name up.

    Its output `documents` is one document: the whole text, its id the address, with `url` (where it was
    found in the end), `title`, `media_type` and `timestamp` in `meta`. Its output `results` is what a model
    is shown: title, address and the first 10,000 characters.
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
        }  # for a file  # fmt: skip

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
        """`run_async`, blocking."""
        return run_blocking(self.run_async(url))

    async def run_batch_async(self, urls: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """`run_async` for each address, at most `at_once` at a time; results in their order."""
        return await gather_bounded(self.run_async, urls, at_once)

    def run_batch(self, urls: Iterable[str], *, at_once: int = 4) -> list[Searched]:
        """`run_batch_async`, blocking."""
        return run_blocking(self.run_batch_async(urls, at_once=at_once))

    async def fetch(self, url: str) -> Document:
        """The page at `url`. Raises `ToolError`."""
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
