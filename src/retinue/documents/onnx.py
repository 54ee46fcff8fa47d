"""A transformer in a folder: `model.onnx` (or `onnx/model*.onnx`) and `tokenizer.json`, run by onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .._internal.processes import call_in_forked_child, keep_from_parent
from ..errors import DataError, UsageError
from ..tools.keyword_search import make_storable

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[numpy.float32]

MAX_TOKENS = 256  # of a text; the rest is truncated
_FEWEST_TOKENS = 8
_BATCH = 16
_MOST_THREADS = 4
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
Texts: TypeAlias = "Sequence[str] | Sequence[tuple[str, str]]"  # texts, or pairs of texts


@dataclass(frozen=True, slots=True)
class Batch:
    """The model's output for the texts with these `numbers`.

    `output`: the model's first output, floats of shape (texts, …). `mask`, of shape (texts, tokens): 1 for each token,
    0 for padding.
    """

    numbers: list[int]
    mask: NDArray[numpy.int64]
    output: Floats


class OnnxModel:
    """The model in `folder`. Thread-safe.

    Texts, or pairs of texts, are truncated to `max_tokens` tokens. Raises `UsageError` without the extra `rank`, and
    `DataError` if the folder contains no such model.
    """

    def __init__(self, folder: Path, max_tokens: int) -> None:
        if max_tokens < _FEWEST_TOKENS:
            raise UsageError(f"max_tokens must be at least {_FEWEST_TOKENS}, not {max_tokens}")
        missing = [name for name in ("numpy", "onnxruntime", "tokenizers") if find_spec(name) is None]
        if missing:
            raise UsageError("a model as ONNX needs the extra 'rank': pip install 'retinue[rank]'")
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
        if not {"input_ids"} <= set(self._types) <= _INPUTS:
            raise DataError(f"{folder}: the model takes {', '.join(self._types)} (want input_ids, attention_mask, …)")

    def run_batches(self, texts: Texts) -> Iterator[Batch]:
        """Yield the model's output for `texts`, in batches of similar length."""
        encoded = [self._encode(text) for text in texts]
        order = sorted(range(len(encoded)), key=lambda number: len(encoded[number].ids))
        for start in range(0, len(order), _BATCH):
            numbers = order[start : start + _BATCH]
            yield self._run(numbers, [encoded[number] for number in numbers])

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

    def _run(self, numbers: list[int], encodings: list[Any]) -> Batch:
        import numpy

        shape = len(encodings), max(1, *(len(one.ids) for one in encodings))
        ids = numpy.full(shape, self._pad, numpy.int64)
        mask, types = numpy.zeros(shape, numpy.int64), numpy.zeros(shape, numpy.int64)
        for row, one in enumerate(encodings):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
            types[row, : len(one.ids)] = one.type_ids
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        given = {
            name: values[name].astype(numpy.int32) if kind == "tensor(int32)" else values[name]
            for name, kind in self._types.items()
        }
        if self._session is None:
            self._session = _make_session(self._file)
        try:
            output = self._session.run(None, given)[0]
        except Exception as error:  # onnxruntime's exceptions have no common base class
            raise DataError(f"{self.folder}: the model failed: {_shorten(error)}") from error
        return Batch(numbers, mask, numpy.asarray(output, numpy.float32))


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
