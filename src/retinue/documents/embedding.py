"""Embeddings: texts as vectors, so that similar meanings have similar directions."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..core.values import Document
from ..errors import DataError
from ..models import weights
from .onnx import MAX_TOKENS, Batch, OnnxModel, load_model

if TYPE_CHECKING:
    from .onnx import Floats


class Embedder(Protocol):
    """Computes vectors of texts. `embed` may be slow, and may be called from any thread."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions)."""


def add_title(document: Document) -> str:
    """Return the text of a document that is embedded and scored: its title, if any, followed by its content."""
    title = document.meta.get("title")
    return f"{title}\n{document.content}" if title else document.content


class OnnxEmbedder:
    """A sentence-transformers model in a folder: `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`.

    A text's vector is the mean of its token vectors (or the first, if `1_Pooling/config.json` says so). Texts are
    truncated to `max_tokens` tokens. Raises `DataError` if the folder contains no such model, and `UsageError` without
    the extra `rank`.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = MAX_TOKENS) -> None:
        path = Path(folder).expanduser().resolve()
        self._model: OnnxModel = load_model(path, max_tokens)
        self._first_only = _is_first_token_only(path / "1_Pooling" / "config.json")
        self.dimensions = int(self._pool_tokens(next(self._model.run_batches(["a"]))).shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions)."""
        import numpy

        vectors = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        for batch in self._model.run_batches(texts):
            vectors[batch.numbers] = self._pool_tokens(batch)
        return normalize_vectors(vectors)

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """Split `text` into pieces within the model's limit, each with its token count. Empty if there is no text."""
        return list(self._model.split_pieces(text))

    def _pool_tokens(self, batch: Batch) -> Floats:
        if batch.output.ndim == 2:  # the model has already pooled
            return batch.output
        if batch.output.ndim != 3:
            raise DataError(f"{self._model.folder} is not an embedder: its output has the shape {batch.output.shape}")
        if self._first_only:
            return batch.output[:, 0]
        mask = batch.mask[:, :, None].astype(batch.output.dtype)
        mean: Floats = (batch.output * mask).sum(axis=1) / mask.sum(axis=1).clip(min=1)
        return mean


class CachedEmbedder:
    """An LRU cache around `embedder` for the vectors of the last `size` texts; each is computed once."""

    def __init__(self, embedder: Embedder, size: int = 10_000) -> None:
        self._embedder = embedder
        self._size = size
        self._kept: dict[str, Floats] = {}  # oldest first
        self._lock = threading.Lock()

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions)."""
        import numpy

        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            found |= {text: row.copy() for text, row in zip(new, self._embedder.embed(new), strict=True)}
        with self._lock:
            self._kept |= found
            for text in list(self._kept)[: max(0, len(self._kept) - self._size)]:
                del self._kept[text]
        return numpy.stack([found[text] for text in texts]) if texts else self._embedder.embed([])


def MiniLM() -> CachedEmbedder:
    """Return all-MiniLM-L6-v2 (Reimers and Gurevych; Apache-2.0) with 8-bit weights: 384 dimensions, English.

    All callers share it and its cache of 10,000 vectors, so each text is embedded once for indexing, search and
    ranking. Raises `UsageError` if it is not installed: `retinue models pull minilm` fetches its 23 MB.
    """
    return _share_embedder(weights.find("minilm"))


@lru_cache(maxsize=1)
def load_minilm() -> OnnxEmbedder:
    """Return the same model without a cache. Raises `UsageError` if it is not installed."""
    return OnnxEmbedder(weights.find("minilm"))


@lru_cache(maxsize=1)
def _share_embedder(folder: Path) -> CachedEmbedder:
    return CachedEmbedder(OnnxEmbedder(folder))


def normalize_vectors(vectors: Floats) -> Floats:
    """Normalize `vectors` to length 1; zero vectors stay unchanged."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / numpy.where(lengths > 0, lengths, 1)).astype(numpy.float32)


def _is_first_token_only(path: Path) -> bool:
    """Return whether a sentence-transformers folder uses the first token's vector for the text."""
    if not path.is_file():
        return False
    try:
        modes = {mode for mode, used in json.loads(path.read_text("utf-8")).items() if used is True}
    except (ValueError, AttributeError, OSError) as error:
        raise DataError(f"{path} is not a pooling configuration: {error}") from error
    modes = {mode for mode in modes if mode.startswith("pooling_mode_")}
    if not modes <= {"pooling_mode_cls_token", "pooling_mode_mean_tokens"} or len(modes) > 1:
        raise DataError(f"{path}: want pooling by mean or by the first token, not {', '.join(sorted(modes))}")
    return modes == {"pooling_mode_cls_token"}
