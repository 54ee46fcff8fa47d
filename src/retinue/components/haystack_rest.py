"""Remote pipelines: on deepset Cloud, or behind Haystack's own REST API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import quote

from ..core.component import QueryComponent
from ..core.run_context import idempotency_header
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest, ask_service, check_query, parse_json_object
from .web_search import read_text

SHOWN = 3  # answers (or documents if there are none) shown to a model
_OTHERS = ("answer", "content", "id", "score", "meta", "embedding")  # fields not copied into `meta`


class PipelineAnswers(TypedDict):
    """The outputs of a remote pipeline: `results`, the text for a model; answers and documents, best first."""

    results: str
    answers: list[Document]
    documents: list[Document]


class _Remote:
    """Queries a remote pipeline."""

    def __init__(self, service: Service, path: str, *, batched: bool) -> None:
        self._service = service
        self._path = path
        self._batched = batched

    async def find(self, query: str) -> PipelineAnswers:
        """Return its answers. deepset Cloud takes a list of queries and returns a list of results."""
        query = check_query(query)
        body = {"queries": [query]} if self._batched else {"query": query}
        headers = {"Authorization": f"Bearer {self._service.key}"} if self._service.key else {}
        headers |= idempotency_header()
        given = (await ask_service(self._service, ServiceRequest(self._path, headers=headers, body=body))).body
        found = parse_json_object(self._service, given, "a pipeline")
        if self._batched:
            results = found.get("results")
            found = parse_json_object(
                self._service, results[0] if isinstance(results, list) and results else None, "a pipeline"
            )
        if not any(isinstance(found.get(key), list) for key in ("answers", "documents", "results")):
            raise ToolError(f"{self._service.name} answered without 'answers', 'documents' or 'results'")
        return _read_answers(found)


class DeepsetCloudPipeline(QueryComponent[PipelineAnswers]):
    """A pipeline deployed on deepset Cloud (Haystack's tools proposal, PR 4084).

    The key is `api_key`, or else `DEEPSET_CLOUD_API_KEY` in the environment. The outputs are `answers` and `documents`,
    both as documents with scores and further fields in `meta` (an answer's content is its text), and `results`, the
    text for a model: the first answers, or else the first documents. `seconds` is the time limit. Raises `UsageError`
    without a key.
    """

    effects = "once"  # its effects are unknown

    def __init__(
        self,
        pipeline: str,
        workspace: str = "default",
        api_key: str | None = None,
        *,
        endpoint: str = "https://api.cloud.deepset.ai/api/v1",
        seconds: float = 20.0,
    ) -> None:
        key = (api_key or os.environ.get("DEEPSET_CLOUD_API_KEY") or "").strip()
        if not key:
            raise UsageError("deepset Cloud needs a key: pass api_key=… or set DEEPSET_CLOUD_API_KEY")
        self.name = "DeepsetCloudPipeline"
        path = f"/workspaces/{_encode_path_segment(workspace)}/pipelines/{_encode_path_segment(pipeline)}/search"
        self._remote = _Remote(Service("deepset Cloud", endpoint, key, seconds), path, batched=True)

    async def run_async(self, query: str) -> PipelineAnswers:
        """Answer a question from documents that were indexed for it.

        Raises `ToolError` if the pipeline cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return await self._remote.find(query)


class HaystackPipeline(QueryComponent[PipelineAnswers]):
    """A pipeline behind Haystack's REST API (v1: `POST /query`) at `base_url`; outputs as for `DeepsetCloudPipeline`.

    `api_key` is sent as a bearer token, for proxies that require one.
    """

    effects = "once"  # its effects are unknown

    def __init__(self, base_url: str, api_key: str | None = None, *, seconds: float = 20.0) -> None:
        self.name = "HaystackPipeline"
        self._remote = _Remote(Service("Haystack", base_url, api_key or "", seconds), "/query", batched=False)

    async def run_async(self, query: str) -> PipelineAnswers:
        """Answer a question from documents that were indexed for it.

        Raises `ToolError` if the pipeline cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return await self._remote.find(query)


def _encode_path_segment(name: str) -> str:
    """Return a name as one URL path segment. Raises `UsageError` if it is invalid."""
    if name.strip(".") == "" or "/" in name:
        raise UsageError(f"deepset Cloud: {name!r} is not the name of a workspace or pipeline")
    return quote(name, safe="")


def _read_answers(found: Mapping[str, Any]) -> PipelineAnswers:
    answers = _read_documents(found.get("answers"), "answer")
    documents = _read_documents(found.get("documents"), "content")
    said = [one for one in _as_list(found.get("results")) if isinstance(one, str) and one.strip()]  # of a PromptNode
    shown = said or [_format_line(one) for one in (answers or documents)[:SHOWN]]
    results = "\n".join(shown) or "Nothing was found. Try other words."
    return {"results": results, "answers": answers, "documents": documents}


def _read_documents(items: Any, key: str) -> list[Document]:
    """Convert answers or documents; empty ones are omitted, such as a reader's "no answer"."""
    kept = []
    for item in _as_list(items):
        content = item.get(key) if isinstance(item, Mapping) else None
        if isinstance(content, str) and content.strip():
            score, meta = item.get("score"), item.get("meta")
            more = {name: value for name, value in item.items() if name not in _OTHERS and value is not None}
            number = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
            own = meta if isinstance(meta, Mapping) else {}
            kept.append(Document(content.strip(), read_text(item.get("id")), {**more, **own}, number))
    return kept


def _format_line(document: Document) -> str:
    title = next(filter(None, (read_text(document.meta.get(key)) for key in ("title", "name", "file_name"))), "")
    return (f"{title}: " if title else "") + " ".join(document.content.split())


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
