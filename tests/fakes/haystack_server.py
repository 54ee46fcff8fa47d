"""A server that is deepset Cloud and Haystack's own REST API at once: pipelines that answer what they are told to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .json_service import Asked, JSONService, Said, key_of

KEY = "api_secret/key+1="
PATH = "/api/v1/workspaces/default/pipelines/docs/search"


class HaystackServer(JSONService):
    """`found`: what is answered to a query; to one that is not there, nothing. `PATH` is deepset Cloud's, which wants
    the `KEY`; `/query` is Haystack's, which wants none and refuses fields it does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Mapping[str, Any]] = {}

    def answer(self, asked: Asked) -> Said:
        if asked.path == "/query":
            return self._query(asked)
        if key_of(asked) != KEY:
            return 401, {"errors": ["Unauthorized. Check your API key."]}, {}
        if asked.path != PATH:
            return 404, {"errors": ["Pipeline not found."]}, {}
        queries = asked.body.get("queries")
        if not isinstance(queries, list):
            return 422, {"detail": [{"loc": ["body", "queries"], "msg": "field required", "type": "missing"}]}, {}
        results = [
            {"query_id": f"q{at}", "query": query, "prompts": {}, **_empty(), **self.found.get(query, {})}
            for at, query in enumerate(queries)
        ]
        return 200, {"query_id": "5a1c", "results": results, "logprobs": None}, {}

    def _query(self, asked: Asked) -> Said:
        if odd := asked.body.keys() - {"query", "params", "debug"}:
            return 422, {"detail": [{"loc": ["body", *odd], "msg": "extra fields not permitted"}]}, {}
        query = asked.body["query"]
        return 200, {"query": query, **_empty(), **self.found.get(query, {}), "_debug": None}, {}


def _empty() -> dict[str, Any]:
    return {"answers": [], "documents": []}


def answer(text: str, score: Any = 0.9, **more: Any) -> dict[str, Any]:
    """An answer as Haystack v1 gives it."""
    return {
        "answer": text,
        "type": "extractive",
        "score": score,
        "context": f"… {text} …",
        "offsets_in_document": [{"start": 2, "end": 2 + len(text)}],
        "offsets_in_context": [{"start": 2, "end": 2 + len(text)}],
        "document_ids": ["d1"],
        "meta": {},
        **more,
    }


def document(text: str, **more: Any) -> dict[str, Any]:
    """A document as Haystack v1 gives it."""
    given = {"id": "d1", "content": text, "content_type": "text", "meta": {}, "score": 0.5, "embedding": None}
    return {**given, **more}
