"""A server that speaks the documented JSON of the search engines' vendors, with their paging and their errors.

with SearchServer("serper") as server:
    server.pages = results(25)
    ... SearchEngine("serper", KEY, base_url=server.url) ...
    assert server.asked == [{"q": "coffee"}]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .loopback import Served

KEY = "secret/key+1="
Result = tuple[str, str, str]  # title, link, snippet
WRONG_KEY = {
    "serper": (403, {"message": "Unauthorized.", "statusCode": 403}),
    "searchapi": (401, {"error": "Invalid API key."}),
    "serpapi": (401, {"error": "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"}),
    "tavily": (401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}),
    "wikipedia": (403, {"error": {"code": "blocked", "info": "Your client has been blocked."}}),
}
LIMITED = {
    "serper": {"message": "Too many requests"},
    "searchapi": {"error": "You have exceeded your hourly rate limit."},
    "serpapi": {"error": "Your account has run out of searches."},
    "tavily": {"detail": {"error": "Your request has been blocked due to excessive requests."}},
    "wikipedia": {"error": {"code": "ratelimited", "info": "You've exceeded your rate limit."}},
}


def results(count: int) -> list[Result]:
    """That many results, each with a page of its own."""
    return [(f"Page {at}", f"https://example.com/{at}", f"About {at}.") for at in range(1, count + 1)]


class SearchServer(Served):
    """The server, while its `with` lasts: it finds the same `pages`, and gives the same `answer`, for all queries.

    `asked`: the parameters, or the body, of each request, without the key. `failure`: a status and a body,
    as JSON or bytes, that it answers with.
    """

    def __init__(self, vendor: str) -> None:
        self.pages: list[Result] = []
        self.answer = ""
        self.asked: list[dict[str, Any]] = []
        self.failure: tuple[int, Any] | None = None
        self._vendor = vendor
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._search)
        super().__init__(app)

    async def _search(self, request: web.Request) -> web.StreamResponse:
        asked: dict[str, Any] = dict(request.query)
        if request.method == "POST":
            asked |= await request.json()
        given = asked.pop("api_key", "") or request.headers.get("X-API-KEY", "")
        given = given or request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append(asked)
        method, path, answer = _VENDORS[self._vendor]
        status, body = (200, answer(self, asked)) if (request.method, request.path) == (method, path) else (404, {})
        if given != ("" if self._vendor == "wikipedia" else KEY):
            status, body = WRONG_KEY[self._vendor]
        status, body = self.failure or (status, body)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=data, headers={"Content-Type": "application/json"})

    def part(self, start: int, count: int) -> list[Result]:
        """The results of one page."""
        return self.pages[start : start + count]


def _serper(server: SearchServer, asked: Mapping[str, Any]) -> dict[str, Any]:
    start = (asked.get("page", 1) - 1) * 10
    organic = [
        {"title": title, "link": link, "snippet": snippet, "position": at}
        for at, (title, link, snippet) in enumerate(server.part(start, 10), 1)
    ]
    box = {"answerBox": {"title": "T", "answer": server.answer, "link": "https://example.com/a"}}
    return {"searchParameters": asked, **(box if server.answer else {}), "organic": organic, "credits": 1}


def _google(key: str, size: int) -> Any:
    """SerpAPI's and SearchApi's answers, which differ in how a page is asked for."""

    def answer(server: SearchServer, asked: Mapping[str, Any]) -> dict[str, Any]:
        start = (int(asked.get(key, 1)) - 1) * 10 if size == 1 else int(asked.get(key, 0))
        organic = [
            {"position": at, "title": title, "link": link, "displayed_link": link, "snippet": snippet, "source": "E"}
            for at, (title, link, snippet) in enumerate(server.part(start, 10), 1)
        ]
        box = {"type": "organic_result", "answer": server.answer, "title": "T", "link": "https://example.com/a"}
        if not organic:
            return {"search_metadata": {}, "error": "Google hasn't returned any results for this query."}
        shown = {"answer_box": box} if server.answer else {}
        return {"search_metadata": {"status": "Success"}, **shown, "organic_results": organic}

    return answer


def _tavily(server: SearchServer, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = [
        {"title": title, "url": link, "content": snippet, "score": 0.9, "raw_content": None}
        for title, link, snippet in server.part(0, min(asked["max_results"], 20))
    ]
    return {
        "query": asked["query"], "answer": server.answer or None, "images": [], "results": found,
        "response_time": 1.5, "request_id": "123e4567",
    }  # fmt: skip


def _wikipedia(server: SearchServer, asked: Mapping[str, Any]) -> dict[str, Any]:
    start, count = int(asked.get("gsroffset", 0)), int(asked["gsrlimit"])
    found = [
        {"pageid": at, "ns": 0, "title": title, "index": start + at, "extract": snippet, "fullurl": link}
        for at, (title, link, snippet) in enumerate(server.part(start, count), 1)
    ]
    more = (
        {"continue": {"gsroffset": start + count, "continue": "gsroffset||"}} if server.pages[start + count :] else {}
    )
    return {"batchcomplete": True, **more, **({"query": {"pages": found[::-1]}} if found else {})}


_VENDORS = {
    "serper": ("POST", "/search", _serper),
    "searchapi": ("GET", "/api/v1/search", _google("page", 1)),
    "serpapi": ("GET", "/search.json", _google("start", 10)),
    "tavily": ("POST", "/search", _tavily),
    "wikipedia": ("GET", "/w/api.php", _wikipedia),
}
