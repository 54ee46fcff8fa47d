"""`Ranker` and `TopPSampler`: the order, the seed's rule, and both in pipelines, files and tools."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import given, strategies as st

from fakes import tiny_onnx
from fakes.tiny_onnx import WORDS
from retinue import DataError, Document, DocumentStore, Pipeline, Tool, UsageError
from retinue.components import Ranker, Retriever, TopPSampler
from retinue.config import load_spec


class Lengths:
    """A cross-encoder for which the longer text is the better one."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


def scored(*shares: float) -> list[Document]:
    """Documents whose softmax has these shares."""
    return [Document(str(share), score=math.log(share)) for share in shares]


def contents(documents: Sequence[Document]) -> list[str]:
    return [document.content for document in documents]


# ── the ranker ───────────────────────────────────────────────────────────────────────────────────


def test_documents_come_best_first_with_their_scores_and_only_the_best() -> None:
    documents = [Document("bb", "1", {"n": 1}, 9.0), Document("a"), Document("ccc"), Document("dd")]
    ranked = Ranker(Lengths(), top_k=3).run("q", documents)["documents"]
    assert ranked == [Document("ccc", score=3.0), Document("bb", "1", {"n": 1}, 2.0), Document("dd", score=2.0)]
    assert Ranker(Lengths()).run("q", []) == {"documents": []}


def test_a_title_is_judged_with_its_text() -> None:
    ranked = Ranker(Lengths()).run("q", [Document("bbb"), Document("a", meta={"title": "Title"})])
    assert contents(ranked["documents"]) == ["a", "bbb"]


class Odd:
    def __init__(self, *scores: float) -> None:
        self.scores = scores

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return self.scores


@pytest.mark.parametrize("scores", [(), (1.0, 2.0), (float("nan"),), (float("inf"),)])
def test_scores_that_are_none_are_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="must give a finite number for each of 1 texts"):
        Ranker(Odd(*scores)).run("q", [Document("a")])


@pytest.mark.parametrize("named", ["", "cohere", "cohere:", "tei:", "jina"])
def test_models_that_nobody_knows(named: str) -> None:
    with pytest.raises(UsageError, match=r"want minilm, cohere:MODEL, jina:MODEL, tei:ADDRESS or a folder"):
        Ranker(named)


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="top_k must be at least 1, not 0"):
        Ranker(Lengths(), 0)
    with pytest.raises(DataError, match="contains no ONNX model"):
        Ranker(str(tmp_path))
    for top_p in (0, -0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="top_p must be above 0 and at most 1"):
            TopPSampler(top_p)


# ── the seed's rule ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("top_p", "kept"), [(0.7, 2), (0.95, 3), (0.5, 1), (0.01, 1), (0.6, 2), (0.9, 3), (1.0, 3)])
def test_the_smallest_set_that_exceeds_p_is_kept(top_p: float, kept: int) -> None:
    found = TopPSampler(top_p).run("q", scored(0.3, 0.6, 0.1))["documents"]
    assert contents(found) == ["0.6", "0.3", "0.1"][:kept]
    assert [document.meta["probability"] for document in found] == pytest.approx([0.6, 0.3, 0.1][:kept])


SCORES = st.lists(st.floats(-1e300, 1e300) | st.floats(-9, 9) | st.integers(-5, 5), max_size=30)


@given(scores=SCORES, top_p=st.floats(0.001, 1.0), data=st.data())
def test_it_is_minimal_ordered_and_the_same_in_any_order(
    scores: list[float], top_p: float, data: st.DataObject
) -> None:
    documents = [Document(str(at), score=score) for at, score in enumerate(scores)]
    sampler = TopPSampler(top_p)
    kept = sampler.run("q", documents)["documents"]
    shares = [document.meta["probability"] for document in kept]
    assert bool(kept) == bool(documents)
    assert shares == sorted(shares, reverse=True)
    assert math.fsum(shares[:-1]) <= top_p + 1e-8  # without the last it would not be enough
    assert len(kept) == len(documents) or math.fsum(shares) > top_p
    best = sorted(scores, reverse=True)[: len(kept)]
    assert [document.score for document in kept] == best
    mixed = sampler.run("q", data.draw(st.permutations(documents)))["documents"]
    assert [document.score for document in mixed] == best


@given(scores=SCORES)
def test_at_one_all_are_kept(scores: list[float]) -> None:
    documents = [Document(str(at), score=score) for at, score in enumerate(scores)]
    assert len(TopPSampler(1.0).run("q", documents)["documents"]) == len(documents)


def test_a_model_of_its_own_comes_before_the_documents_scores() -> None:
    documents = [Document("a", score=99.0), Document("b" * 50, score=0.0)]
    (kept,) = TopPSampler(0.9, Lengths()).run("q", documents)["documents"]
    assert (kept.content[0], kept.score) == ("b", 50.0)


@pytest.mark.parametrize("score", [None, float("nan"), float("inf")])
def test_documents_without_a_score_are_refused(score: float | None) -> None:
    with pytest.raises(UsageError, match=r"has no score .*; put a Ranker before it or give it a cross_encoder"):
        TopPSampler().run("q", [Document("a", score=1.0), Document("b", score=score)])


# ── in pipelines, files and tools ────────────────────────────────────────────────────────────────

TABLE = [[{"paris": 2.0, "rome": -1.0}.get(word, 0.0)] for word in WORDS]


STORED = [Document("rome rome", "1"), Document("paris paris paris", "2"), Document("paris rome", "3")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with DocumentStore(tmp_path / "cities.db") as store:
        store.write(STORED)
        yield store


def pipeline(store: DocumentStore, cross_encoder: str) -> Pipeline:
    made = Pipeline(name="ranking")
    made.add_node(Retriever(store), "Retriever", ["Query"])
    made.add_node(Ranker(cross_encoder, 2), "Ranker", ["Retriever"])
    made.add_node(TopPSampler(0.7), "TopP", ["Ranker"])
    return made


def test_both_in_a_pipeline_and_in_a_models_hands(store: DocumentStore, tmp_path: Path) -> None:
    made = pipeline(store, str(tiny_onnx.cross_encoder(tmp_path / "model", TABLE)))
    assert contents(made.run("paris rome")["documents"]) == ["paris paris paris"]
    tool = Tool("Search", made)
    said = asyncio.run(tool.call("paris rome"))
    assert "paris paris paris" in said
    assert "rome rome" not in said


FILE = """
retinue: 1
components:
  - name: Cities
    type: DocumentStore
    params: {path: cities.db}
  - name: Retriever
    type: Retriever
    params: {store: Cities}
  - name: Ranker
    type: Ranker
    params: {cross_encoder: MODEL, top_k: 2}
  - name: TopP
    type: TopPSampler
    params: {top_p: 0.7}
pipelines:
  - name: ranking
    nodes:
      - {name: Retriever, inputs: [Query]}
      - {name: Ranker, inputs: [Retriever]}
      - {name: TopP, inputs: [Ranker]}
"""


def test_both_in_a_file_that_can_be_saved(store: DocumentStore, tmp_path: Path) -> None:
    folder = str(tiny_onnx.cross_encoder(tmp_path / "model", TABLE))
    path, saved, built = (tmp_path / name for name in ("ranking.yml", "saved.yml", "built.yml"))
    path.write_text(FILE.replace("MODEL", folder), encoding="utf-8")
    loaded = Pipeline.load_from_yaml(path)
    assert contents(loaded.run("paris rome")["documents"]) == ["paris paris paris"]
    loaded.save_to_yaml(saved)
    assert load_spec(saved).model_dump() == load_spec(path).model_dump()
    pipeline(store, folder).save_to_yaml(built)
    assert contents(Pipeline.load_from_yaml(built).run("paris rome")["documents"]) == ["paris paris paris"]


@pytest.mark.model
@pytest.mark.full
def test_the_example_runs() -> None:
    example = run_path(str(Path(__file__).parents[2] / "examples" / "ranking.py"))
    said = io.StringIO()
    with redirect_stdout(said):
        example["main"](example["QUESTION"], passages=30)
    first, *others = said.getvalue().splitlines()
    assert "Dewey Lake Monster: The Dewey Lake Monster is the name" in first
    assert any("% Bigfoot: " in other for other in others)  # which the first leads to
