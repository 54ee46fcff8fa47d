"""A server that speaks SerpAPI's documented JSON, and fails as it and others in its place do.

    with SerpAPIServer() as server:
        server.found["Jason Sudeikis age"] = {"answer_box": {"type": "organic_result", "answer": "47 years"}}
        ... SerpAPIComponent("the key", base_url=server.url) ...
        assert server.asked == [{"engine": "google", "q": "Jason Sudeikis age", "api_key": "the key"}]

A query that is not in `found` finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .loopback import Served

KEY = "secret/key+1="
INVALID_KEY = "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"
OUT_OF_SEARCHES = "Your account has run out of searches."
NO_RESULTS = "Google hasn't returned any results for this query."
MISSING_QUERY = "Missing query `q` parameter."


class SerpAPIServer(Served):
    """The server, while its `with` lasts. Its attributes may be set at any time.

    `failure`: status and message of an error that it answers with. `body`: bytes it sends instead of JSON,
    with `headers`. `redirect`: where it sends everybody. `hang`: it never answers; `drop`: it hangs up.
    """

    def __init__(self) -> None:
        self.found: dict[str, Mapping[str, Any]] = {}
        self.asked: list[dict[str, str]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.failure: tuple[int, str] | None = None
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.redirect = ""
        self.hang = False
        self.drop = False
        app = web.Application()
        app.router.add_get("/search.json", self._search)
        super().__init__(app)

    async def _search(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.headers_seen.append(dict(request.headers))
        if self.hang:
            await self._loopback.closing.wait()
        if (self.hang or self.drop) and request.transport is not None:
            request.transport.close()
        if self.redirect:
            return web.Response(status=302, headers={"Location": f"{self.redirect}?{request.query_string}"})
        if self.body is not None:
            return web.Response(body=self.body, headers={"Content-Type": "application/json", **self.headers})
        status, body = self._answer(request.query)
        return web.json_response(body, status=status)

    def _answer(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        if query.get("api_key") != KEY:
            return 401, {"error": INVALID_KEY}
        if self.failure is not None:
            return self.failure[0], {"search_metadata": {"status": "Error"}, "error": self.failure[1]}
        if not query.get("q"):
            return 400, {"error": MISSING_QUERY}
        found = self.found.get(query["q"], {"error": NO_RESULTS})
        parameters = {key: value for key, value in query.items() if key != "api_key"}
        metadata = {"id": "64c32cfeb68f8bc186aaa013", "status": "Success", "total_time_taken": 1.11}
        state = "Fully empty" if "error" in found else "Results for exact spelling"
        information = {"organic_results_state": state, "query_displayed": query["q"]}
        head = {"search_metadata": metadata, "search_parameters": parameters, "search_information": information}
        return 200, {**head, **found}


def organic(*snippets: str) -> list[dict[str, Any]]:
    """Organic results as SerpAPI gives them, with these snippets."""
    return [
        {
            "position": at,
            "title": f"Page {at}",
            "link": f"https://example.com/{at}",
            "displayed_link": f"https://example.com › {at}",
            "favicon": "https://serpapi.com/images/1.png",
            "snippet": snippet,
            "snippet_highlighted_words": [snippet.split()[0]],
            "sitelinks": {"inline": [{"title": "More", "link": "https://example.com/more"}]},
            "source": "Example",
        }
        for at, snippet in enumerate(snippets, 1)
    ]
