"""Tiny models as ONNX, written here byte by byte, so that the tests need no package that writes them.

Each looks up one row of a table for each token (Gather); what comes after that makes it an embedder or a
cross-encoder. An ONNX file is a Protocol Buffers message; the numbers below are its fields' (onnx.proto).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "paris", "is", "the", "capital", "of", "france", "rome", "cat")


def embedder(folder: Path, table: Sequence[Sequence[float]]) -> Path:
    """A folder with a model that gives a token's row of `table` (one for each of `WORDS`)."""
    output = _value("last_hidden_state", _FLOAT, ["texts", "tokens", len(table[0])])
    return _model(folder, table, [_node("Gather", ["table", "input_ids"], ["last_hidden_state"])], output)


def cross_encoder(folder: Path, table: Sequence[Sequence[float]]) -> Path:
    """A folder with a model whose logits are the sums of the tokens' rows of `table` (padding's must be 0)."""
    nodes = [
        _node("Gather", ["table", "input_ids"], ["rows"]),
        _node("ReduceSum", ["rows", "axes"], ["logits"], keepdims=0),
    ]
    return _model(folder, table, nodes, _value("logits", _FLOAT, ["texts", len(table[0])]))


def tokenizer(path: Path) -> None:
    """A tokenizer of `WORDS` that puts texts and pairs together as BERT's does."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    made = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = Lowercase()
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(path))


def _model(folder: Path, table: Sequence[Sequence[float]], nodes: Sequence[bytes], output: bytes) -> Path:
    rows = [value for row in table for value in row]
    tensors = [
        _tensor("table", _FLOAT, [len(table), len(table[0])], struct.pack(f"<{len(rows)}f", *rows)),
        _tensor("axes", _INT64, [1], struct.pack("<q", 1)),
    ]
    graph = b"".join(_bytes(1, node) for node in nodes) + _text(2, "tiny")
    graph += b"".join(_bytes(5, tensor) for tensor in tensors)
    graph += _bytes(11, _value("input_ids", _INT64, ["texts", "tokens"])) + _bytes(12, output)
    opset = _bytes(8, _text(1, "") + _number(2, 17))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(_number(1, 8) + _bytes(7, graph) + opset)
    tokenizer(folder / "tokenizer.json")
    return folder


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int) -> bytes:
    node = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs) + _text(4, kind)
    for name, value in attributes.items():
        node += _bytes(5, _text(1, name) + _number(3, value) + _number(20, 2))  # 2: a whole number
    return node


def _tensor(name: str, kind: int, shape: Sequence[int], data: bytes) -> bytes:
    return b"".join(_number(1, size) for size in shape) + _number(2, kind) + _text(8, name) + _bytes(9, data)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(_bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sizes)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def pooling(folder: Path, **modes: Any) -> None:
    """Say how a sentence-transformers folder pools."""
    path = folder / "1_Pooling" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"word_embedding_dimension": 2, **modes}), encoding="utf-8")
