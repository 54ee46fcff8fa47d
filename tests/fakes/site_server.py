"""A small website on loopback: pages by their paths, and who asked for what.

with SiteServer({"/": page("Home", "/a"), "/a": page("A")}) as site:
    ... Crawler(fetcher=LinkContentFetcher([site.place])).run(f"{site.url}/") ...
    assert site.asked == ["/robots.txt", "/", "/a"]
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from urllib.parse import unquote

from aiohttp import web

from .loopback import Served


def page(title: str, *links: str, head: str = "") -> str:
    """A page in HTML with a sentence about its title, and with links; one that begins with `!` is `nofollow`."""
    anchors = "".join(
        f'<a rel="noopener nofollow" href="{escape(link[1:])}">x</a> ' if link.startswith("!") else
        f'<a href="{escape(link)}">x</a> '
        for link in links
    )  # fmt: skip
    text = f"<p>This is a sentence about {title}, long enough to be the text of a page.</p>"
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{text}{anchors}</body></html>"


class SiteServer(Served):
    """The site, while its `with` lasts. A text that begins with `<` is a page, `->` and an address a redirect, and a
    number a status; other texts are plain. `/robots.txt` is one of its paths. `/hang` never answers."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        app = web.Application()
        app.router.add_get("/{path:.*}", self._page)
        super().__init__(app)

    @property
    def place(self) -> str:
        """Its host and port, for `allow`."""
        return self.url.removeprefix("http://")

    async def _page(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        if request.path == "/hang":
            await self._loopback.closing.wait()
        text = self.pages.get(unquote(request.path_qs), "404")
        if text.isdecimal():
            return web.Response(status=int(text))
        if text.startswith("->"):
            return web.Response(status=302, headers={"Location": text[2:]})
        return web.Response(text=text, content_type="text/html" if text.startswith("<") else "text/plain")
