"""Models that embed texts or judge their relevance, by name, or behind an API: OpenAI, Cohere, Jina and TEI."""

from __future__ import annotations

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
from .services import as_list, as_mapping, find_key

if TYPE_CHECKING:
    from ..documents.embedding import Floats


def resolve_cross_encoder(given: CrossEncoder | str, name: str) -> CrossEncoder:
    """Return the cross-encoder `given`, or the one it names: `minilm`, `cohere:MODEL`, `jina:MODEL`, `tei:ADDRESS`, or
    the folder of a cross-encoder as ONNX. `name` is the caller's name for errors. Raises `UsageError` for anything
    else, and if a requirement is not installed."""
    if not isinstance(given, str):
        return given
    if given == "minilm":
        return EmbeddingScorer()
    service, _, rest = given.partition(":")
    if service in RERANKERS and rest:
        return HostedReranker(service, base_url=rest) if service == "tei" else HostedReranker(service, rest)
    if not given.strip() or service in RERANKERS:
        raise UsageError(f"{name}: want minilm, cohere:MODEL, jina:MODEL, tei:ADDRESS or a folder, not {given!r}")
    return OnnxCrossEncoder(given)


def resolve_embedder(given: Embedder | str, name: str) -> Embedder:
    """Return the embedder `given`, or the one it names: `minilm`, `openai:MODEL`, or the folder of a
    sentence-transformers model as ONNX. `name` is the caller's name for errors. Raises `UsageError` for anything else,
    and if a requirement is not installed."""
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


_ALMOST = 1e-6  # minimum distance of a relevance from 0 and 1
_LARGEST = 1e300  # that is still finite


@dataclass(frozen=True, slots=True)
class _Api:
    """How a service is asked for one `value` a text, by that key: address, path, environment variable of the key, batch
    size in texts, and a function from model, query and texts to the request."""

    base_url: str
    path: str
    key_variable: str
    at_once: int
    body: Callable[[str, str, list[str]], Mapping[str, Any]]
    value: str = "relevance_score"

    async def fetch_values(self, service: Service, model: str, query: str, texts: Sequence[str]) -> list[Any]:
        """Return the values in the order of the texts. Raises `ToolError`, or `UsageError` if the key is rejected."""
        headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
        values: list[Any] = []
        for start in range(0, len(texts), self.at_once):
            some = list(texts[start : start + self.at_once])
            request = ServiceRequest(self.path, headers=headers, body=self.body(model, query, some))
            status, answer, _ = await service.answer(request)
            if status in (401, 403):
                raise UsageError(f"{service.name} refused the key: {read_error_text(answer)}")
            if status != 200:
                raise ToolError(f"{service.name} answered {status}: {read_error_text(answer)}")
            results = answer.get("results", answer.get("data")) if isinstance(answer, Mapping) else answer
            found = {
                one["index"]: one[self.value]
                for one in map(as_mapping, as_list(results))
                if type(one.get("index")) is int and self._is_value(one.get(self.value))
            }
            if sorted(found) != list(range(len(some))):
                raise ToolError(f"{service.name}'s answer does not have one {self.value} for each of {len(some)} texts")
            values += [found[index] for index in range(len(some))]
        return values

    def _is_value(self, one: Any) -> bool:
        if self.value == "embedding":
            return isinstance(one, list)
        return isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < _LARGEST


def _build_documents_body(model: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"model": model, "query": query, "documents": texts, "top_n": len(texts)}


def _build_texts_body(_: str, query: str, texts: list[str]) -> Mapping[str, Any]:
    return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}


def _build_embeddings_body(model: str, _: str, texts: list[str]) -> Mapping[str, Any]:
    return {"model": model, "input": texts, "encoding_format": "float"}


RERANKERS: Mapping[str, _Api] = {
    "cohere": _Api("https://api.cohere.com", "/v2/rerank", "COHERE_API_KEY", 500, _build_documents_body),
    "jina": _Api("https://api.jina.ai", "/v1/rerank", "JINA_API_KEY", 500, _build_documents_body),
    "tei": _Api("", "/rerank", "", 32, _build_texts_body, "score"),  # 32: its default limit
}
_EMBEDDINGS = _Api(  # 32 texts with 3,072 numbers each take half of the largest response that is read
    "https://api.openai.com/v1", "/embeddings", "OPENAI_API_KEY", 32, _build_embeddings_body, "embedding"
)


class HostedReranker:
    """A `CrossEncoder` at a service: `cohere`, `jina`, or `tei` (Hugging Face's Text Embeddings Inference).

    The key is `api_key`, or else `COHERE_API_KEY` or `JINA_API_KEY` in the environment; a TEI server needs its
    `base_url` and usually no key. Relevances between 0 and 1 are converted to logits, so that softmax can separate
    them. `score` blocks. Raises `UsageError` for an unknown service, or without a key.
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
        self._api = api = RERANKERS[service]
        if api.base_url and not model:
            raise UsageError(f"{service}: name the model")
        self._model = model
        key = find_key(service, api_key, [api.key_variable] if api.key_variable else [])
        self._service = Service(service, base_url or api.base_url, key, seconds)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text, higher is better. Raises `ToolError`, or `UsageError` if the key is
        rejected."""
        scores = list(map(float, run_blocking(self._api.fetch_values(self._service, self._model, query, texts))))
        if self._api.value != "relevance_score" or not all(0 <= score <= 1 for score in scores):
            return scores
        kept = [min(max(score, _ALMOST), 1 - _ALMOST) for score in scores]
        return [log(score / (1 - score)) for score in kept]


class HostedEmbedder:
    """An `Embedder` at a server that implements OpenAI's `/v1/embeddings`.

    `base_url` includes the version (`http://localhost:8080/v1`). The key is `api_key`, or else `OPENAI_API_KEY` in the
    environment; only OpenAI itself requires one. `embed` blocks.
    """

    effects = "read"

    def __init__(
        self,
        model: str,
        base_url: str = _EMBEDDINGS.base_url,
        api_key: str | None = None,
        *,
        seconds: float = 60.0,
    ) -> None:
        key = find_key("OpenAI", api_key, [_EMBEDDINGS.key_variable] if base_url == _EMBEDDINGS.base_url else [])
        self._model = model
        self._service = Service("the embedder", base_url, key, seconds)

    @cached_property
    def dimensions(self) -> int:
        """The number of dimensions of a vector; the server is asked once."""
        return int(self.embed(["a"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions). Raises `ToolError`, or `UsageError` if the
        key is rejected."""
        import numpy

        rows = run_blocking(_EMBEDDINGS.fetch_values(self._service, self._model, "", texts))
        try:
            vectors = numpy.asarray(rows or numpy.zeros((0, self.dimensions)), numpy.float32)
        except (TypeError, ValueError, OverflowError):
            vectors = numpy.zeros(0, numpy.float32)
        if vectors.ndim != 2 or not vectors.shape[1] or not numpy.isfinite(vectors).all():
            raise ToolError("the embedder's answer is not one list of numbers for each text, all of one length")
        return normalize_vectors(vectors)
