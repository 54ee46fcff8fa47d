"""Resolves a cross-encoder that is passed as an object or named in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from .._internal.concurrency import run_in_thread
from ..core.values import Document
from ..documents.cross_encoders import CrossEncoder, EmbeddingScorer, OnnxCrossEncoder
from ..documents.embedding import titled
from ..errors import DataError, UsageError
from .hosted_models import RERANKERS, HostedReranker

Scorer = CrossEncoder | str


def cross_encoder(given: Scorer, name: str) -> CrossEncoder:
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


async def with_scores(scorer: CrossEncoder, query: str, documents: Sequence[Document]) -> list[Document]:
    """Return `documents` with the scores of `scorer` for `query`, in unchanged order.

    Raises `DataError` unless there is a finite number for each.
    """
    if not documents:
        return []
    texts = [titled(document) for document in documents]
    scores = [float(score) for score in await run_in_thread(scorer.score, query, texts)]
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        raise DataError(f"a cross-encoder must give a finite number for each of {len(texts)} texts, not {scores!r:.80}")
    return [replace(document, score=score) for document, score in zip(documents, scores, strict=True)]


def best_first(documents: Sequence[Document]) -> list[Document]:
    """Sort `documents` by descending score, stably; those without a score come last."""
    return sorted(documents, key=lambda document: float("inf") if document.score is None else -document.score)
