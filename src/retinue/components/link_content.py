"""`LinkContentFetcher`: the text of a web page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urljoin

from ..core.component import Component
from ..core.values import Document
from ..documents.text_extraction import extract_text_apart
from ..errors import DataError, ToolError
from ..net.robots import FORBIDDEN, MAX_FILE, Robots
from ..net.ssrf_guard import Check, Resolve, SsrfGuard, resolve_host
from ..net.url_policy import shorten_url
from .services import Searched

SHOWN = 10_000  # characters of a page that a model is shown


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
