"""How well texts answer a query, judged with both in view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import DataError
from .onnx import MAX_TOKENS, load_model

if TYPE_CHECKING:
    from .onnx import Floats


class CrossEncoder(Protocol):
    """Scores texts for a query. Its `score` may take long and may be called from any thread."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """A number for each text, the higher the better, on any scale; softmax makes probabilities of them.

        A text with a title has it as its first line.
        """
        ...


class OnnxCrossEncoder:
    """A Hugging Face cross-encoder in a folder: `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`.

    A text's score is the model's logit; of a model with two, how much higher the second (relevant) is than
    the first. Query and text together count up to `max_tokens` tokens. Raises `DataError` if the folder does
    not hold such a model, `UsageError` without the extra `rank`.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int = MAX_TOKENS) -> None:
        self._model = load_model(Path(folder).expanduser().resolve(), max_tokens)
        self.score("a", ["a"])  # what is no cross-encoder is found now

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The logit of each text, the higher the better."""
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
            raise DataError(f"{self._model.folder} is no cross-encoder: want 1 or 2 logits a pair, not {shape[1:]}")
        logits: Floats = output[:, -1] if shape[1] == 1 else output[:, 1] - output[:, 0]
        return logits
