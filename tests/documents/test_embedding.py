"""Embedders: tiny models as ONNX whose vectors can be worked out by hand, and MiniLM itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, strategies as st

from fakes import tiny_onnx
from fakes.tiny_onnx import WORDS
from retinue import DataError, UsageError
from retinue.documents.embedding import CachedEmbedder, MiniLM, OnnxEmbedder

TABLE = [[0.0, 0.0] for _ in WORDS]
TABLE[WORDS.index("paris")] = [3.0, 0.0]
TABLE[WORDS.index("rome")] = [0.0, 3.0]
TABLE[WORDS.index("[CLS]")] = [0.6, 0.8]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_onnx.embedder(tmp_path / "model", TABLE)


def test_a_text_is_the_mean_of_its_tokens_at_length_one(folder: Path) -> None:
    embedder = OnnxEmbedder(folder)
    assert embedder.dimensions == 2
    vectors = embedder.embed(["Paris", "the cat is of the capital of rome", "paris", ""])
    assert vectors.dtype == numpy.float32
    expected = numpy.array([[3.6, 0.8], [0.6, 3.8], [3.6, 0.8], [0.6, 0.8]])
    assert vectors == pytest.approx(expected / numpy.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    assert embedder.embed([]).shape == (0, 2)


def test_a_folder_can_say_that_the_first_token_stands_for_all(folder: Path) -> None:
    tiny_onnx.pooling(folder, pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    assert OnnxEmbedder(folder).embed(["paris", "rome"]) == pytest.approx(numpy.array([[0.6, 0.8], [0.6, 0.8]]))
    tiny_onnx.pooling(folder, pooling_mode_max_tokens=True)
    with pytest.raises(DataError, match="want pooling by mean or by the first token"):
        OnnxEmbedder(folder)


def test_what_is_beyond_the_limit_is_not_seen(folder: Path) -> None:
    embedder = OnnxEmbedder(folder, max_tokens=8)
    short, long = embedder.embed(["paris " * 6, "paris " * 6 + "rome " * 600])
    assert short == pytest.approx(long)
    with pytest.raises(UsageError, match="max_tokens must be at least 8, not 1"):
        OnnxEmbedder(folder, max_tokens=1)


@given(texts=st.lists(st.text() | st.sampled_from(["paris", "the capital of france is paris", "\ud800"]), max_size=40))
def test_any_texts_in_any_company_have_the_same_vectors(
    tmp_path_factory: pytest.TempPathFactory, texts: Sequence[str]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    if not folder.exists():
        tiny_onnx.embedder(folder, TABLE)
    embedder = OnnxEmbedder(folder)
    together = embedder.embed(texts)
    assert together.shape == (len(texts), 2)
    for text, vector in zip(texts, together, strict=True):
        assert vector == pytest.approx(embedder.embed([text])[0], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("model.onnx", None, "contains no ONNX model"),
        ("tokenizer.json", None, r"tokenizer\.json does not exist"),
        ("model.onnx", b"\x08\x08garbage", r"model\.onnx cannot be loaded"),
        ("tokenizer.json", b"[1]", r"tokenizer\.json is not a tokenizer"),
    ],
)
def test_a_folder_that_holds_no_model_is_said(folder: Path, name: str, content: bytes | None, problem: str) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        OnnxEmbedder(folder)


@given(name=st.sampled_from(["model.onnx", "tokenizer.json"]), kept=st.floats(0, 0.999))
def test_a_file_cut_short_anywhere_is_a_data_error_at_most(
    tmp_path_factory: pytest.TempPathFactory, name: str, kept: float
) -> None:
    folder = tiny_onnx.embedder(tmp_path_factory.mktemp("cut"), TABLE)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * kept)])
    with suppress(DataError):  # what is missing may not be needed
        OnnxEmbedder(folder).embed(["paris"])


def test_vectors_that_a_model_has_pooled_itself_are_taken_as_they_are(tmp_path: Path) -> None:
    pooled = OnnxEmbedder(tiny_onnx.cross_encoder(tmp_path / "pooled", TABLE)).embed(["paris"])
    assert pooled == pytest.approx(numpy.array([[3.6, 0.8]]) / numpy.hypot(3.6, 0.8))


def test_a_model_may_lie_in_a_folder_onnx(folder: Path) -> None:
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model_quantized.onnx")
    assert OnnxEmbedder(folder).dimensions == 2


class Counting:
    """An embedder that notes what it is asked for."""

    dimensions = 1

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        self.asked.append(list(texts))
        return numpy.array([[float(len(text))] for text in texts], numpy.float32).reshape(len(texts), 1)


def test_a_cache_asks_once_for_each_text_it_still_has() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting, size=3)
    assert cached.embed(["a", "bb", "a"]).tolist() == [[1], [2], [1]]
    assert cached.embed(["bb", "ccc", "dddd"]).tolist() == [[2], [3], [4]]
    assert cached.embed(["a"]).tolist() == [[1]]  # the oldest had gone
    assert cached.embed([]).shape == (0, 1)
    assert counting.asked[:3] == [["a", "bb"], ["ccc", "dddd"], ["a"]]


@pytest.mark.model
def test_minilm_puts_what_means_the_same_together() -> None:
    embedder = MiniLM()
    assert embedder.dimensions == 384
    cat, kitten, market = embedder.embed(["A cat sleeps.", "A kitten is napping.", "Stock markets fell."])
    assert cat @ kitten > 0.5 > 0.2 > abs(cat @ market)


def test_minilm_says_how_it_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"not here; fetch them \(23 MB\) with: retinue models pull minilm"):
        MiniLM()


def test_json_of_pooling_that_is_none_is_said(folder: Path) -> None:
    tiny_onnx.pooling(folder)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps([1]), encoding="utf-8")
    with pytest.raises(DataError, match="is not a pooling configuration"):
        OnnxEmbedder(folder)
