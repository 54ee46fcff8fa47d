"""A server that speaks Cohere's `/v2/rerank`, Jina's `/v1/rerank`, TEI's `/rerank` and OpenAI's `/v1/embeddings`.

    with RankingServer() as server:
        server.relevance["Paris is the capital"] = 0.9
        ... HostedReranker("cohere", "rerank-v3.5", base_url=server.url, api_key=KEY) ...
        assert server.asked[0]["query"] == "the capital of France"

A text that is not in `relevance` has 0.01; its vector is that and 1. Results come best first, as documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from aiohttp import web

from .loopback import Served

KEY = "secret/key+1="
TEI_BATCH = 32


class RankingServer(Served):
    """The server, while its `with` lasts. `failure`: a status and the body it answers with; `body`: its answer
    instead of what it would say. A request without the key is refused, but by TEI, where there is none."""

    def __init__(self) -> None:
        self.relevance: dict[str, float] = {}
        self.asked: list[dict[str, Any]] = []
        self.failure: tuple[int, Any] | None = None
        self.body: Any = None
        app = web.Application()
        app.router.add_post("/v2/rerank", self._cohere)
        app.router.add_post("/v1/rerank", self._jina)
        app.router.add_post("/rerank", self._tei)
        app.router.add_post("/v1/embeddings", self._embeddings)
        super().__init__(app)

    async def _cohere(self, request: web.Request) -> web.Response:
        asked = await self._noted(request)
        billed = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        answer = {"id": "07734bd2", "results": self._results(asked["documents"], asked["top_n"]), "meta": billed}
        return self._answered(request, answer, {"id": "07734bd2", "message": "invalid api token"})

    async def _jina(self, request: web.Request) -> web.Response:
        asked = await self._noted(request)
        results = self._results(asked["documents"], asked["top_n"])
        answer = {"model": asked["model"], "object": "list", "usage": {"total_tokens": 815}, "results": results}
        return self._answered(request, answer, {"detail": "Failed to authenticate API Key"})

    async def _tei(self, request: web.Request) -> web.Response:
        asked = await self._noted(request)
        texts = asked["texts"]
        if len(texts) > TEI_BATCH:
            problem = f"batch size {len(texts)} > maximum allowed batch size {TEI_BATCH}"
            return web.json_response({"error": problem, "error_type": "Validation"}, status=422)
        raw = asked.get("raw_scores", False)
        found = [
            {"index": at, "score": _raw(self._of(text)) if raw else self._of(text)} for at, text in enumerate(texts)
        ]
        return self._answered(request, sorted(found, key=lambda one: -one["score"]), None)

    async def _embeddings(self, request: web.Request) -> web.Response:
        asked = await self._noted(request)
        data = [
            {"object": "embedding", "index": at, "embedding": [self._of(text), 1.0]}
            for at, text in enumerate(asked["input"])
        ]
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        answer = {"object": "list", "data": data, "model": asked["model"], "usage": usage}
        said = {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}
        return self._answered(request, answer, {"error": said})

    async def _noted(self, request: web.Request) -> dict[str, Any]:
        asked: dict[str, Any] = await request.json()
        self.asked.append(asked)
        return asked

    def _answered(self, request: web.Request, answer: Any, refusal: Mapping[str, Any] | None) -> web.Response:
        if refusal is not None and request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response(refusal, status=401)
        if self.failure is not None:
            return web.json_response(self.failure[1], status=self.failure[0])
        return web.json_response(answer if self.body is None else self.body)

    def _results(self, texts: list[str], top_n: int) -> list[dict[str, Any]]:
        found = [{"index": at, "relevance_score": self._of(text)} for at, text in enumerate(texts)]
        return sorted(found, key=lambda one: -one["relevance_score"])[:top_n]

    def _of(self, text: str) -> float:
        return self.relevance.get(text, 0.01)


def _raw(relevance: float) -> float:
    return log(relevance / (1 - relevance))
