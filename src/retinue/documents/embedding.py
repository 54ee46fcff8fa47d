"""Texts as vectors: texts that mean much the same point the same way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import DataError
from ..models import bundles
from .onnx import MAX_TOKENS, Batch, OnnxModel, loaded

if TYPE_CHECKING:
    from .onnx import Floats


class Embedder(Protocol):
    """Makes vectors of texts. Its `embed` may take long and may be called from any thread."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text, of shape (texts, dimensions), 32-bit floats; each of length 1."""
        ...


class OnnxEmbedder:
    """A sentence-transformers model in a folder: `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`.

    A text's vector is the mean of its tokens' (or the first's, where `1_Pooling/config.json` says so). Of a
    text, the first `max_tokens` tokens count. Raises `DataError` if the folder does not hold such a model,
    `UsageError` without the extra `rank`.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = MAX_TOKENS) -> None:
        path = Path(folder).expanduser().resolve()
        self._model: OnnxModel = loaded(path, max_tokens)
        self._first_only = _first_only(path / "1_Pooling" / "config.json")
        self.dimensions = int(self._pooled(next(self._model.batches(["a"]))).shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text, of shape (texts, dimensions), 32-bit floats; each of length 1."""
        import numpy

        vectors = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        for batch in self._model.batches(texts):
            vectors[batch.numbers] = self._pooled(batch)
        return unit(vectors)

    def _pooled(self, batch: Batch) -> Floats:
        if batch.output.ndim == 2:  # the model has pooled
            return batch.output
        if batch.output.ndim != 3:
            raise DataError(f"{self._model.folder} is no embedder: its output has the shape {batch.output.shape}")
        if self._first_only:
            return batch.output[:, 0]
        mask = batch.mask[:, :, None].astype(batch.output.dtype)
        mean: Floats = (batch.output * mask).sum(axis=1) / mask.sum(axis=1).clip(min=1)
        return mean


def MiniLM() -> OnnxEmbedder:
    """all-MiniLM-L6-v2 (Reimers and Gurevych; Apache-2.0) with weights of 8 bits: 384 dimensions, English.

    Raises `UsageError` if it is not here: `retinue models pull minilm` fetches its 23 MB.
    """
    return OnnxEmbedder(bundles.find(bundles.MINILM))


def unit(vectors: Floats) -> Floats:
    """`vectors`, each of length 1; one that is all 0 stays."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / numpy.where(lengths > 0, lengths, 1)).astype(numpy.float32)


def _first_only(path: Path) -> bool:
    """Whether the first token's vector stands for the text, as a sentence-transformers folder says it."""
    if not path.is_file():
        return False
    try:
        modes = {mode for mode, used in json.loads(path.read_text("utf-8")).items() if used is True}
    except (ValueError, AttributeError, OSError) as error:
        raise DataError(f"{path} is not a configuration of pooling: {error}") from error
    modes = {mode for mode in modes if mode.startswith("pooling_mode_")}
    if not modes <= {"pooling_mode_cls_token", "pooling_mode_mean_tokens"} or len(modes) > 1:
        raise DataError(f"{path}: only pooling by mean or by the first token is known, not {', '.join(sorted(modes))}")
    return modes == {"pooling_mode_cls_token"}
