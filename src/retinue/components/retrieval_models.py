"""Models that embed texts or judge their relevance, by name, or behind an API: OpenAI, Cohere, Jina and TEI."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_blocking
from ..documents.cross_encoders import CrossEncoder, EmbeddingScorer, OnnxCrossEncoder
from ..documents.embedding import Embedder, MiniLM, OnnxEmbedder, normalize_vectors
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest, read_error_text

if TYPE_CHECKING:
    from ..documents.onnx import Floats


def resolve_cross_encoder(given: CrossEncoder | str, name: str) -> CrossEncoder:
    """Return the cross-encoder `given`, or the one it names: `minilm`, `cohere:MODEL`, `jina:MODEL`, `tei:ADDRESS`, or
    the folder of a cross-encoder as ONNX. `name` is the caller's name for errors.

    Raises `UsageError` for anything else, and if a requirement is not installed.
    """
    if not isinstance(given, str):
        return given
    if given == "minilm":
        return EmbeddingScorer()
    service, _, rest = given.partition(":")
    if service == "tei" and rest:
        return HostedReranker("tei", base_url=rest)
    if service in RERANKERS and rest:
        return HostedReranker(service, rest)
    if not given.strip() or service in RERANKERS:
        raise UsageError(f"{name}: want minilm, cohere:MODEL, jina:MODEL, tei:ADDRESS or a folder, not {given!r}")
    return OnnxCrossEncoder(given)


def resolve_embedder(given: Embedder | str, name: str) -> Embedder:
    """Return the embedder `given`, or the one it names: `minilm`, `openai:MODEL`, or the folder of a
    sentence-transformers model as ONNX. `name` is the caller's name for errors.

    Raises `UsageError` for anything else, and if a requirement is not installed.
    """
    if not isinstance(given, str):
        return given
    if given == "minilm":
        return MiniLM()
    service, _, model = given.partition(":")
    if service == "openai" and model:
        return HostedEmbedder(model)
    if not given.strip() or service == "openai":
        raise UsageError(f"{name}: want minilm, openai:MODEL or a folder, not {given!r}")
    return OnnxEmbedder(given)


_REFUSED = (401, 403)
_EMBEDDED_AT_ONCE = 32  # texts; with 3,072 numbers each, they take half of the largest response that is read
_ALMOST = 1e-6  # minimum distance of a relevance from 0 and 1
_LARGEST = 1e300  # that is still finite


@dataclass(frozen=True, slots=True)
class _Reranking:
    """A reranking service: address, path, environment variable of the key, batch size in texts, and a function from
    model, query and texts to the request. `score`: the key of the score in a result.
    """

    base_url: str
    path: str
    key_variable: str
    at_once: int
    body: Callable[[str, str, list[str]], Mapping[str, Any]]
    score: str = "relevance_score"


def _build_documents_body(model: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"model": model, "query": query, "documents": texts, "top_n": len(texts)}


def _build_texts_body(_: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}


RERANKERS: Mapping[str, _Reranking] = {
    "cohere": _Reranking("https://api.cohere.com", "/v2/rerank", "COHERE_API_KEY", 500, _build_documents_body),
    "jina": _Reranking("https://api.jina.ai", "/v1/rerank", "JINA_API_KEY", 500, _build_documents_body),
    "tei": _Reranking("", "/rerank", "", 32, _build_texts_body, "score"),  # 32: its default limit
}


class HostedReranker:
    """A `CrossEncoder` at a service: `cohere`, `jina`, or `tei` (Hugging Face's Text Embeddings Inference).

    The key is `api_key`, or else `COHERE_API_KEY` or `JINA_API_KEY` in the environment; a TEI server needs its
    `base_url` and usually no key. Relevances between 0 and 1 are converted to logits, so that softmax can separate
    them. `score` blocks.

    Raises `UsageError` for an unknown service, or without a key.
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
            raise UsageError(f"no service {service!r} reranks; {suggest_name(service, RERANKERS)}")
        self._reranking = known = RERANKERS[service]
        if known.base_url and not model:
            raise UsageError(f"{service}: name the model")
        key = _find_key(service, api_key, known.key_variable, required=bool(known.key_variable))
        self._model = model
        self._service = Service(service, base_url or known.base_url, key, seconds)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text, higher is better. Raises `ToolError`, or `UsageError` if the key is
        rejected.
        """
        return run_blocking(self._fetch_scores(query, texts))

    async def _fetch_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        known = self._reranking
        scores: list[float] = []
        for start in range(0, len(texts), known.at_once):
            some = list(texts[start : start + known.at_once])
            answer = await _ask(self._service, known.path, known.body(self._model, query, some))
            results = answer.get("results") if isinstance(answer, Mapping) else answer
            scores += map(float, _read_values_in_order(self._service, results, known.score, _is_number, len(some)))
        if known.score == "relevance_score" and all(0 <= score <= 1 for score in scores):
            return [_compute_logit(score) for score in scores]
        return scores


class HostedEmbedder:
    """An `Embedder` at a server that implements OpenAI's `/v1/embeddings`.

    `base_url` includes the version (`http://localhost:8080/v1`). The key is `api_key`, or else `OPENAI_API_KEY` in the
    environment; only OpenAI itself requires one. `embed` blocks.
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
        key = _find_key("OpenAI", api_key, "OPENAI_API_KEY" if own else "", required=own)
        self._model = model
        self._service = Service("the embedder", base_url, key, seconds)

    @cached_property
    def dimensions(self) -> int:
        """The number of dimensions of a vector; the server is asked once."""
        return int(self.embed(["a"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions).

        Raises `ToolError`, or `UsageError` if the key is rejected.
        """
        import numpy

        rows: list[Any] = []
        for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
            rows += run_blocking(self._embed(list(texts[start : start + _EMBEDDED_AT_ONCE])))
        try:
            vectors = numpy.asarray(rows or numpy.zeros((0, self.dimensions)), numpy.float32)
        except (TypeError, ValueError, OverflowError):
            vectors = numpy.zeros(0, numpy.float32)
        if vectors.ndim != 2 or not vectors.shape[1] or not numpy.isfinite(vectors).all():
            raise ToolError("the embedder's answer is not one list of numbers for each text, all of one length")
        return normalize_vectors(vectors)

    async def _embed(self, texts: list[str]) -> list[Any]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        answer = await _ask(self._service, "/embeddings", body)
        results = answer.get("data") if isinstance(answer, Mapping) else None
        return _read_values_in_order(self._service, results, "embedding", _is_list, len(texts))


async def _ask(service: Service, path: str, body: Mapping[str, Any]) -> Any:
    """Return the JSON response. Raises `ToolError`, or `UsageError` if the service rejects the key."""
    headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
    status, answer, _ = await service.answer(ServiceRequest(path, headers=headers, body=body))
    if status in _REFUSED:
        raise UsageError(f"{service.name} refused the key: {read_error_text(answer)}")
    if status != 200:
        raise ToolError(f"{service.name} answered {status}: {read_error_text(answer)}")
    return answer


def _read_values_in_order(
    service: Service, results: Any, key: str, fits: Callable[[Any], bool], count: int
) -> list[Any]:
    """Return the values under `key` of `count` results, ordered by their `index`."""
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


def _compute_logit(relevance: float) -> float:
    kept = min(max(relevance, _ALMOST), 1 - _ALMOST)
    return log(kept / (1 - kept))


def _find_key(service: str, given: str | None, variable: str, *, required: bool) -> str:
    key = (given or os.environ.get(variable) or "").strip()
    if required and not key:
        raise UsageError(f"{service} needs a key: pass api_key=… or set {variable}")
    return key
