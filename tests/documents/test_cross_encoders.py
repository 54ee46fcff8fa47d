"""Cross-encoders as ONNX, tiny ones whose logits are known, and the scorer that is made of an embedder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, strategies as st

from fakes import tiny_onnx
from fakes.tiny_onnx import WORDS
from retinue import DataError
from retinue.documents.cross_encoders import EmbeddingScorer, OnnxCrossEncoder
from retinue.documents.embedding import normalize_vectors

WEIGHTS = {"paris": 2.0, "rome": -1.0, "capital": 0.5}


def table(columns: int) -> list[list[float]]:
    """A word's weight in the last column; before it, minus one for each word that is a cat."""
    return [[-1.0 if word == "cat" else 0.0] * (columns - 1) + [WEIGHTS.get(word, 0.0)] for word in WORDS]


def test_a_pairs_score_is_the_models_logit(tmp_path: Path) -> None:
    encoder = OnnxCrossEncoder(tiny_onnx.cross_encoder(tmp_path / "one", table(1)))
    texts = ["rome " * 30, "Paris is the capital", "", "paris"]
    assert encoder.score("the capital", texts) == pytest.approx([-29.5, 3.0, 0.5, 2.5])
    assert encoder.score("the capital", []) == []


def test_of_two_logits_it_is_how_much_higher_the_second_is(tmp_path: Path) -> None:
    encoder = OnnxCrossEncoder(tiny_onnx.cross_encoder(tmp_path / "two", table(2)))
    assert encoder.score("cat", ["paris", "rome cat"]) == pytest.approx([3.0, 1.0])


def test_what_is_no_cross_encoder_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="want 1 or 2 logits a pair"):
        OnnxCrossEncoder(tiny_onnx.cross_encoder(tmp_path / "three", table(3)))
    with pytest.raises(DataError, match="want 1 or 2 logits a pair"):
        OnnxCrossEncoder(tiny_onnx.embedder(tmp_path / "embedder", table(2)))


class Letters:
    """An embedder that looks at how often each vowel comes."""

    dimensions = 5

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        counts = [[1.0 + text.count(letter) for letter in "aeiou"] for text in texts]
        vectors = numpy.array(counts, numpy.float32).reshape(len(texts), 5)
        return normalize_vectors(vectors)


TEXTS = st.lists(st.text(alphabet="abcdeiou \n", max_size=40), max_size=12, unique=True)


@given(query=st.text(alphabet="abcdeiou ", max_size=20), texts=TEXTS, seed=st.integers(0, 9))
def test_a_texts_score_does_not_depend_on_where_it_stands(query: str, texts: list[str], seed: int) -> None:
    scorer = EmbeddingScorer(Letters())
    scores = scorer.score(query, texts)
    assert len(scores) == len(texts)
    assert numpy.isfinite(scores).all()
    assert sum(scores) == pytest.approx(0, abs=1e-6)
    shuffled = random.Random(seed).sample(texts, len(texts))
    again = dict(zip(shuffled, scorer.score(query, shuffled), strict=True))
    assert [again[text] for text in texts] == pytest.approx(scores, abs=1e-6)


class Same:
    """An embedder for which all texts mean the same."""

    dimensions = 1

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        return numpy.ones((len(texts), 1), numpy.float32)


def test_the_second_look_finds_what_the_best_text_leads_to() -> None:
    texts = [
        "The lake monster\nA creature seen in 1964, also called the Michigan Bigfoot.",
        "Bigfoot\nA cryptid of the Pacific Northwest.",
        "Teapot\nA vessel for steeping leaves in the kitchen.",
        "Folding chair\nA seat which can be stowed.",
    ]
    scores = EmbeddingScorer(Same()).score("Which monster was seen in 1964?", texts)
    assert scores.index(max(scores)) == 0
    assert scores[1] > max(scores[2:])


@pytest.mark.model
def test_minilm_knows_what_a_question_is_about_without_its_words() -> None:
    texts = ["The fall in share prices.", "A feline that naps all day.", "How bread is baked."]
    scores = EmbeddingScorer().score("sleepy cats", texts)
    assert scores.index(max(scores)) == 1
