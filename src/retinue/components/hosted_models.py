"""Models behind an address that embed or rerank: OpenAI's, Cohere's, Jina's and TEI's formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

from .._internal.suggestions import suggestion
from .._internal.sync_bridge import run_blocking
from ..documents.embedding import unit
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest

if TYPE_CHECKING:
    from ..documents.onnx import Floats

_REFUSED = (401, 403)
_EMBEDDED_AT_ONCE = 32  # texts; with 3,072 numbers each they are half of the largest answer that is read
_ALMOST = 1e-6  # how near a relevance may come to 0 and 1
_LARGEST = 1e300  # that is still a number
_MESSAGES = ("message", "detail", "error")  # where the services say what is wrong


@dataclass(frozen=True, slots=True)
class _Reranking:
    """A service that reranks: its address, the path, the environment's variable with its key, how many texts
    it takes at once, and how it wants them (of a model, a query and texts). `score`: where a result has it."""

    base_url: str
    path: str
    key_variable: str
    at_once: int
    body: Callable[[str, str, list[str]], Mapping[str, Any]]
    score: str = "relevance_score"


def _documents(model: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"model": model, "query": query, "documents": texts, "top_n": len(texts)}


def _texts(_: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}


RERANKERS: Mapping[str, _Reranking] = {
    "cohere": _Reranking("https://api.cohere.com", "/v2/rerank", "COHERE_API_KEY", 500, _documents),
    "jina": _Reranking("https://api.jina.ai", "/v1/rerank", "JINA_API_KEY", 500, _documents),
    "tei": _Reranking("", "/rerank", "", 32, _texts, "score"),  # 32: what it takes unless it is told otherwise
}


class HostedReranker:
    """A `CrossEncoder` at a service: `cohere`, `jina`, or `tei` (Hugging Face's Text Embeddings Inference).

    The key is `api_key`, else in `COHERE_API_KEY` or `JINA_API_KEY`; a TEI of one's own needs its `base_url`
    and mostly no key. Where a service answers with relevances between 0 and 1, scores are their logits, so
    that softmax can tell them apart. `score` blocks.

    Raises `UsageError` for an unknown service, without a key, or without the extra `web`.
    """

    effects = "read"

    def __init__(
        self,
        service: str,
        model: str = "",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        seconds: float = 30.0,
    ) -> None:
        if service not in RERANKERS:
            raise UsageError(f"no service {service!r} reranks; {suggestion(service, RERANKERS)}")
        self._reranking = known = RERANKERS[service]
        if known.base_url and not model:
            raise UsageError(f"{service}: say which model")
        key = _key(service, api_key, known.key_variable, required=bool(known.key_variable))
        self._model = model
        self._service = Service(service, base_url or known.base_url, key, seconds)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The relevance of each text, the higher the better. Raises `ToolError`, or `UsageError` if the key is
        refused."""
        return run_blocking(self._scores(query, texts))

    async def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        known = self._reranking
        scores: list[float] = []
        for start in range(0, len(texts), known.at_once):
            some = list(texts[start : start + known.at_once])
            answer = await _asked(self._service, known.path, known.body(self._model, query, some))
            results = answer.get("results") if isinstance(answer, Mapping) else answer
            scores += map(float, _in_order(self._service, results, known.score, _is_number, len(some)))
        if known.score == "relevance_score" and all(0 <= score <= 1 for score in scores):
            return [_logit(score) for score in scores]
        return scores


class HostedEmbedder:
    """An `Embedder` at a server that speaks OpenAI's `/v1/embeddings`.

    `base_url` has the version in it (`http://localhost:8080/v1`); the key is `api_key`, else in
    `OPENAI_API_KEY`, and only OpenAI itself must have one. `embed` blocks. Raises `UsageError` without the
    extra `web`.
    """

    effects = "read"

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        *,
        seconds: float = 60.0,
    ) -> None:
        own = base_url == "https://api.openai.com/v1"
        key = _key("OpenAI", api_key, "OPENAI_API_KEY" if own else "", required=own)
        self._model = model
        self._service = Service("the embedder", base_url, key, seconds)

    @cached_property
    def dimensions(self) -> int:
        """How many numbers a vector has; the server is asked once."""
        return int(self.embed(["a"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text, of shape (texts, dimensions), 32-bit floats; each of length 1. Raises
        `ToolError`, or `UsageError` if the key is refused."""
        import numpy

        rows: list[Any] = []
        for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
            rows += run_blocking(self._embedded(list(texts[start : start + _EMBEDDED_AT_ONCE])))
        try:
            vectors = numpy.asarray(rows or numpy.zeros((0, self.dimensions)), numpy.float32)
        except (TypeError, ValueError, OverflowError):
            vectors = numpy.zeros(0, numpy.float32)
        if vectors.ndim != 2 or not vectors.shape[1] or not numpy.isfinite(vectors).all():
            raise ToolError("the embedder's answer is not one list of numbers for each text, all of one length")
        return unit(vectors)

    async def _embedded(self, texts: list[str]) -> list[Any]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        answer = await _asked(self._service, "/embeddings", body)
        results = answer.get("data") if isinstance(answer, Mapping) else None
        return _in_order(self._service, results, "embedding", _is_list, len(texts))


async def _asked(service: Service, path: str, body: Mapping[str, Any]) -> Any:
    """The JSON that the service answers. Raises `ToolError`, or `UsageError` if it refuses the key."""
    headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
    status, answer = await service.ask(ServiceRequest(path, headers=headers, body=body))
    if status in _REFUSED:
        raise UsageError(f"{service.name} refused the key: {_said(answer) or status}")
    if status != 200:
        raise ToolError(f"{service.name} answered {status}: {_said(answer) or '(no message)'}")
    return answer


def _said(answer: Any) -> str:
    """What the service says is wrong."""
    for key in _MESSAGES:
        said = answer.get(key) if isinstance(answer, Mapping) else None
        if isinstance(said, Mapping):
            said = said.get("message")
        if isinstance(said, str) and said.strip():
            return " ".join(said.split())[:300]
    return ""


def _in_order(service: Service, results: Any, key: str, fits: Callable[[Any], bool], count: int) -> list[Any]:
    """What stands under `key` in each of `count` results, which come in any order with their `index`."""
    found: dict[int, Any] = {}
    for result in results if isinstance(results, list) else ():
        if isinstance(result, Mapping) and type(result.get("index")) is int and fits(result.get(key)):
            found[result["index"]] = result[key]
    if sorted(found) != list(range(count)):
        raise ToolError(f"{service.name}'s answer does not have one {key} for each of {count} texts")
    return [found[index] for index in range(count)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _logit(relevance: float) -> float:
    kept = min(max(relevance, _ALMOST), 1 - _ALMOST)
    return log(kept / (1 - kept))


def _key(service: str, given: str | None, variable: str, *, required: bool) -> str:
    key = (given or os.environ.get(variable) or "").strip()
    if required and not key:
        raise UsageError(f"{service} needs a key: give api_key=… or set {variable}")
    return key
