"""A search engine with web pages, and GitHub with issues, on this machine. All of their content is invented."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # where the servers are that speak the vendors' formats

from fakes.github_server import GitHubServer, issue
from fakes.loopback import Served

REPOSITORY = "retinue/retinue"
PAGES = {
    "/users": (
        "Who uses Retinue",
        "Retinue is used by the harbour office of Norhaven, by the library of Marl, and by Kestrel Labs.",
        "The harbour office answers questions about berths with it.",
    ),
    "/raspberry-pi": (
        "Retinue on a Raspberry Pi",
        "To choose the model for a Raspberry Pi 5, look for a GGUF file of at most two billion weights.",
        "Set RETINUE_THREADS=4, since all of its cores are alike.",
    ),
    "/recipes": ("Ten soups for the winter", "A soup of leeks takes half an hour.", "Add salt."),
}
ISSUES = [
    issue(
        4105,
        "crawl_depth has no effect in Crawler",
        "The setting crawl_depth of the Crawler has no effect when a robots.txt is there.",
        labels=["bug"],
    ),
    issue(
        4084,
        "Reader stops at an empty passage",
        "The Reader stops with an error if a passage is empty.",
        labels=["bug"],
    ),
    issue(4031, "TextToSpeech is slow", "It takes two seconds to say a sentence.", labels=["question"]),
    issue(3990, "Retriever returns nothing", "Fixed in version 0.7.", labels=["bug"], state="closed"),
]
COMMENTS = {4105: ["To make crawl_depth work, set respect_robots to false, or allow the path in robots.txt."]}
_WORD = re.compile(r"\w{3,}")


class Web(Served):
    """Web pages, and a search engine in Serper's format that finds those with a word of a query."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_post("/search", self._search)
        app.router.add_get("/{page}", self._page)
        super().__init__(app)

    async def _search(self, request: web.Request) -> web.Response:
        wanted = _words((await request.json())["q"])
        found = [
            {"title": title, "link": f"{self.url}{path}", "snippet": first}
            for path, (title, first, more) in PAGES.items()
            if wanted & _words(f"{title} {first} {more}")
        ]
        return web.json_response({"organic": found})

    async def _page(self, request: web.Request) -> web.Response:
        if request.path not in PAGES:
            raise web.HTTPNotFound
        title, *paragraphs = PAGES[request.path]
        body = "".join(f"<p>{one}</p>" for one in paragraphs)
        text = f"<!doctype html><title>{title}</title><main><h1>{title}</h1>{body}</main>"
        return web.Response(text=text, content_type="text/html")


def _words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in _WORD.findall(text)} - {"retinue", "what", "which", "with"}


@contextmanager
def stand_ins() -> Iterator[tuple[str, str, str]]:
    """The address of the search engine, the place of its pages, and the address of GitHub."""
    with Web() as web, GitHubServer() as github:
        github.issues[REPOSITORY] = list(ISSUES)
        for number, texts in COMMENTS.items():
            github.comments[REPOSITORY, number] = texts
        yield web.url, web.url.removeprefix("http://"), github.url
