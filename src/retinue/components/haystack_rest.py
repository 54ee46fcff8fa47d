"""Remote pipelines: on deepset Cloud, or behind Haystack's own REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import quote

from ..core.component import QueryComponent
from ..core.run_context import idempotency_header
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest, check_query, parse_json_object
from .services import NOTHING_FOUND, as_list, as_mapping, fetch_object, find_key, first_of, read_text

SHOWN = 3  # answers (or documents if there are none) shown to a model
_OTHERS = ("answer", "content", "id", "score", "meta", "embedding")  # fields not copied into `meta`


class PipelineAnswers(TypedDict):
    """The outputs of a remote pipeline: `results`, the text for a model; answers and documents, best first."""

    results: str
    answers: list[Document]
    documents: list[Document]


class HaystackPipeline(QueryComponent[PipelineAnswers]):
    """A pipeline behind Haystack's REST API (v1: `POST /query`) at `base_url`; outputs as for `DeepsetCloudPipeline`.

    `api_key` is sent as a bearer token, for proxies that require one.
    """

    effects = "once"  # its effects are unknown

    def __init__(self, base_url: str, api_key: str | None = None, *, seconds: float = 20.0) -> None:
        self.name = "HaystackPipeline"
        self._service = Service("Haystack", base_url, api_key or "", seconds)

    async def run_async(self, query: str) -> PipelineAnswers:
        """Answer a question from documents that were indexed for it.

        Raises `ToolError` if the pipeline cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return self._read_answers(await self._fetch("/query", {"query": check_query(query)}))

    async def _fetch(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self._service.key}"} if self._service.key else {}
        request = ServiceRequest(path, headers=headers | idempotency_header(), body=body)
        return await fetch_object(self._service, request, "a pipeline")

    def _read_answers(self, found: Mapping[str, Any]) -> PipelineAnswers:
        if not any(isinstance(found.get(key), list) for key in ("answers", "documents", "results")):
            raise ToolError(f"{self._service.name} answered without 'answers', 'documents' or 'results'")
        answers = _read_documents(found.get("answers"), "answer")
        documents = _read_documents(found.get("documents"), "content")
        shown = [one for one in as_list(found.get("results")) if isinstance(one, str) and one.strip()]  # a PromptNode's
        shown = shown or [_format_line(one) for one in (answers or documents)[:SHOWN]]
        return {"results": "\n".join(shown) or NOTHING_FOUND, "answers": answers, "documents": documents}


class DeepsetCloudPipeline(HaystackPipeline):
    """A pipeline deployed on deepset Cloud (Haystack's tools proposal, PR 4084).

    The key is `api_key`, or else `DEEPSET_CLOUD_API_KEY` in the environment. The outputs are `answers` and `documents`,
    both as documents with scores and further fields in `meta` (an answer's content is its text), and `results`, the
    text for a model: the first answers, or else the first documents. `seconds` is the time limit. Raises `UsageError`
    without a key.
    """

    def __init__(
        self,
        pipeline: str,
        workspace: str = "default",
        api_key: str | None = None,
        *,
        endpoint: str = "https://api.cloud.deepset.ai/api/v1",
        seconds: float = 20.0,
    ) -> None:
        self.name = "DeepsetCloudPipeline"
        key = find_key("deepset Cloud", api_key, ["DEEPSET_CLOUD_API_KEY"])
        self._service = Service("deepset Cloud", endpoint, key, seconds)
        for name in (workspace, pipeline):
            if name.strip(".") == "" or "/" in name:
                raise UsageError(f"deepset Cloud: {name!r} is not the name of a workspace or pipeline")
        self._path = f"/workspaces/{quote(workspace, safe='')}/pipelines/{quote(pipeline, safe='')}/search"

    async def run_async(self, query: str) -> PipelineAnswers:
        """Answer a question from documents that were indexed for it.

        Raises `ToolError` if the pipeline cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        found = await self._fetch(self._path, {"queries": [check_query(query)]})
        first = first_of(found.get("results"))  # it takes a list of queries, and returns a list of results
        return self._read_answers(parse_json_object(self._service, first, "a pipeline"))


def _read_documents(items: Any, key: str) -> list[Document]:
    """Convert answers or documents; empty ones are omitted, such as a reader's "no answer"."""
    kept = []
    for item in map(as_mapping, as_list(items)):
        content, score = item.get(key), item.get("score")
        if isinstance(content, str) and content.strip():
            more = {name: value for name, value in item.items() if name not in _OTHERS and value is not None}
            number = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
            meta = {**more, **as_mapping(item.get("meta"))}
            kept.append(Document(content.strip(), read_text(item.get("id")), meta, number))
    return kept


def _format_line(document: Document) -> str:
    title = next(filter(None, (read_text(document.meta.get(key)) for key in ("title", "name", "file_name"))), "")
    return (f"{title}: " if title else "") + " ".join(document.content.split())
