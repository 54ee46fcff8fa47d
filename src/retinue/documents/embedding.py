"""Embeddings: texts as vectors, so that similar meanings have similar directions; and `OnnxModel`, a transformer in a
folder (`model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`), run by onnxruntime."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .._internal.extras import check_extra
from .._internal.processes import call_in_forked_child, keep_from_parent
from ..core.values import Document
from ..errors import DataError, UsageError
from ..models import weights
from ..tools.passages import make_storable

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[numpy.float32]
    Mask: TypeAlias = NDArray[numpy.int64]  # of shape (texts, tokens): 1 for each token, 0 for padding

MAX_TOKENS = 256  # of a text; the rest is truncated
_FEWEST_TOKENS = 8
_BATCH = 16
_MOST_THREADS = 4
_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}  # of an encoding
Texts: TypeAlias = "Sequence[str] | Sequence[tuple[str, str]]"  # texts, or pairs of texts


class OnnxModel:
    """The model in `folder`. Thread-safe.

    Texts, or pairs of texts, are truncated to `max_tokens` tokens. Raises `UsageError` without the extra `rank`, and
    `DataError` if the folder contains no such model.
    """

    def __init__(self, folder: Path, max_tokens: int) -> None:
        if max_tokens < _FEWEST_TOKENS:
            raise UsageError(f"max_tokens must be at least {_FEWEST_TOKENS}, not {max_tokens}")
        check_extra("a model as ONNX", "rank", "numpy", "onnxruntime", "tokenizers")
        self.folder = folder
        files = (folder / "model.onnx", folder / "onnx" / "model.onnx", *sorted(folder.glob("onnx/model*.onnx")))
        self._file = next(filter(Path.is_file, files), folder)
        if self._file == folder:
            raise DataError(
                f"{folder} contains no ONNX model (want model.onnx or onnx/model*.onnx, and tokenizer.json)"
            )
        self._session = _make_session(self._file)
        call_in_forked_child(self._forget_session)
        self._tokenizer, self._pad = _load_tokenizer(folder / "tokenizer.json", max_tokens)
        self._types = {given.name: given.type for given in self._session.get_inputs()}
        if not {"input_ids"} <= set(self._types) <= set(_INPUTS):
            raise DataError(f"{folder}: the model takes {', '.join(self._types)} (want input_ids, attention_mask, …)")

    def run(self, texts: Texts, pool: Callable[[Floats, Mask], Floats]) -> list[Any]:
        """Return a row for each text: those of `pool`, which gets the first output, of shape (texts, …), and the
        mask, for batches of texts of similar length."""
        encoded = [self._encode(text) for text in texts]
        order = sorted(range(len(encoded)), key=lambda number: len(encoded[number].ids))
        rows: dict[int, Any] = {}
        for start in range(0, len(order), _BATCH):
            numbers = order[start : start + _BATCH]
            rows |= zip(numbers, pool(*self._run_batch([encoded[number] for number in numbers])), strict=True)
        return [rows[number] for number in range(len(encoded))]

    def split_pieces(self, text: str) -> Iterator[tuple[str, int]]:
        """Split `text` into pieces within the model's limit, each with its number of tokens."""
        whole = self._encode(text)
        for one in (whole, *whole.overflowing):
            spans = [span for span, added in zip(one.offsets, one.special_tokens_mask, strict=True) if not added]
            if spans:
                yield text[spans[0][0] : spans[-1][1]], len(spans)

    def _forget_session(self) -> None:
        """Drop the session in a forked child, which lacks its threads."""
        keep_from_parent(self._session)
        self._session = None

    def _encode(self, text: str | tuple[str, str]) -> Any:
        one, *other = (text,) if isinstance(text, str) else text
        return self._tokenizer.encode(make_storable(one), *map(make_storable, other))

    def _run_batch(self, encodings: list[Any]) -> tuple[Floats, Mask]:
        import numpy

        longest = max(1, *(len(one.ids) for one in encodings))
        for one in encodings:
            one.pad(longest, pad_id=self._pad)
        given = {}
        for name, kind in self._types.items():
            width = numpy.int32 if kind == "tensor(int32)" else numpy.int64
            given[name] = numpy.array([getattr(one, _INPUTS[name]) for one in encodings], width)
        if self._session is None:
            self._session = _make_session(self._file)
        try:
            output = self._session.run(None, given)[0]
        except Exception as error:  # onnxruntime's exceptions have no common base class
            raise DataError(f"{self.folder}: the model failed: {_shorten(error)}") from error
        mask = numpy.array([one.attention_mask for one in encodings], numpy.int64)
        return numpy.asarray(output, numpy.float32), mask


@lru_cache(maxsize=4)
def load_model(folder: Path, max_tokens: int = MAX_TOKENS) -> OnnxModel:
    """Return the model in `folder`, shared by all callers."""
    return OnnxModel(folder, max_tokens)


def _make_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options.intra_op_num_threads = min(cores, _MOST_THREADS)
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DataError(f"{path} cannot be loaded: {_shorten(error)}") from error


def _load_tokenizer(path: Path, max_tokens: int) -> tuple[Any, int]:
    """Return the tokenizer and the padding id."""
    from tokenizers import Tokenizer

    if not path.is_file():
        raise DataError(f"{path} does not exist (a model's folder has a tokenizer.json)")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise DataError(f"{path} is not a tokenizer: {_shorten(error)}") from error
    named = (tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
    pad = tokenizer.padding["pad_id"] if tokenizer.padding else next((one for one in named if one is not None), 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer, int(pad)


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


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
        self.dimensions = len(self._model.run(["a"], self._pool_tokens)[0])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors as 32-bit floats of shape (texts, dimensions)."""
        import numpy

        rows = self._model.run(texts, self._pool_tokens)
        return normalize_vectors(numpy.array(rows, numpy.float32).reshape(len(texts), self.dimensions))

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """Split `text` into pieces within the model's limit, each with its token count. Empty if there is no text."""
        return list(self._model.split_pieces(text))

    def _pool_tokens(self, output: Floats, mask: Mask) -> Floats:
        if output.ndim == 2:  # the model has already pooled
            return output
        if output.ndim != 3:
            raise DataError(f"{self._model.folder} is not an embedder: its output has the shape {output.shape}")
        if self._first_only:
            return output[:, 0]
        held = mask[:, :, None].astype(output.dtype)
        mean: Floats = (output * held).sum(axis=1) / held.sum(axis=1).clip(min=1)
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
        new = list(dict.fromkeys(text for text in texts if text not in found))
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
