"""Cross-encoders, which score how well a text answers a query by reading both together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import DataError
from .onnx import MAX_TOKENS, load_model

if TYPE_CHECKING:
    from .onnx import Floats


class CrossEncoder(Protocol):
    """Scores texts for a query. `score` may be slow, and may be called from any thread."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a number for each text, higher is better, on any scale; softmax turns them into probabilities.

        A text's title, if any, is its first line.
        """
        ...


class OnnxCrossEncoder:
    """A Hugging Face cross-encoder in a folder: `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`.

    A text's score is the model's logit, or with two logits, the second (relevant) minus the first. Query and text
    together are truncated to `max_tokens` tokens. Raises `DataError` if the folder contains no such model, and
    `UsageError` without the extra `rank`.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = MAX_TOKENS) -> None:
        self._model = load_model(Path(folder).expanduser().resolve(), max_tokens)
        self.score("a", ["a"])  # fails early if it is not a cross-encoder

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the logit of each text, higher is better."""
        scores = [0.0] * len(texts)
        for batch in self._model.batches([(query, text) for text in texts]):
            for number, score in zip(batch.numbers, self._logits(batch.output), strict=True):
                scores[number] = float(score)
        return scores

    def _logits(self, output: Floats) -> Floats:
        shape = output.shape
        if len(shape) == 1:
            return output
        if len(shape) != 2 or shape[1] not in (1, 2):
            raise DataError(f"{self._model.folder} is not a cross-encoder: want 1 or 2 logits a pair, not {shape[1:]}")
        logits: Floats = output[:, -1] if shape[1] == 1 else output[:, 1] - output[:, 0]
        return logits
