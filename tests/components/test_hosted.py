"""Hosted rerankers and embedders against a server that speaks their formats."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import suppress
from math import log
from typing import Any

import numpy
import pytest
from hypothesis import given, settings, strategies as st

from fakes.ranking_server import KEY, RankingServer
from retinue import Document, ToolError, UsageError
from retinue.components import Ranker, TopPSampler
from retinue.components.retrieval_models import HostedEmbedder, HostedReranker, resolve_embedder

TEXTS = ["cat", "Paris is the capital", "Paris"]


@pytest.fixture
def server() -> Iterator[RankingServer]:
    with RankingServer() as server:
        server.relevance |= {"Paris is the capital": 0.9, "Paris": 0.5}
        yield server


def reranker(server: RankingServer, service: str, key: str = KEY) -> HostedReranker:
    return HostedReranker(service, "rerank-v3.5" if service != "tei" else "", base_url=server.url, api_key=key)


@pytest.mark.parametrize("service", ["cohere", "jina", "tei"])
def test_texts_are_scored_in_their_order_as_logits(server: RankingServer, service: str) -> None:
    scores = reranker(server, service).score("capital", TEXTS)
    assert scores == pytest.approx([log(0.01 / 0.99), log(9), 0.0])
    asked = server.asked[0]
    assert asked["query"] == "capital"
    if service == "tei":
        assert asked == {"query": "capital", "texts": TEXTS, "raw_scores": True, "truncate": True}
    else:
        assert asked == {"model": "rerank-v3.5", "query": "capital", "documents": TEXTS, "top_n": 3}


def test_relevances_that_are_certain_stay_finite_and_other_scales_stay_what_they_are(server: RankingServer) -> None:
    server.relevance |= {"yes": 1.0, "no": 0.0}
    yes, no = reranker(server, "cohere").score("q", ["yes", "no"])
    assert (yes, no) == pytest.approx((13.8, -13.8), abs=0.1)
    server.relevance["no"] = -0.5
    assert reranker(server, "jina").score("q", ["yes", "no"]) == [1.0, -0.5]


def test_many_texts_are_sent_in_as_many_requests_as_the_service_wants(server: RankingServer) -> None:
    texts = [f"text {at}" for at in range(70)]
    server.relevance["text 65"] = 0.5
    scores = reranker(server, "tei").score("q", texts)
    assert [len(asked["texts"]) for asked in server.asked] == [32, 32, 6]
    assert scores[65] == max(scores) == 0.0


def test_it_ranks_and_samples(server: RankingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(text) for text in TEXTS]
    ranked = Ranker(reranker(server, "cohere"), top_k=2).run("capital", documents)["documents"]
    assert [document.content for document in ranked] == ["Paris is the capital", "Paris"]
    kept = TopPSampler(0.85, f"tei:{server.url}").run("capital", documents)["documents"]
    assert [document.content for document in kept] == ["Paris is the capital"]
    monkeypatch.setenv("COHERE_API_KEY", KEY)
    assert Ranker("cohere:rerank-v3.5").given["cross_encoder"] == "cohere:rerank-v3.5"


def test_vectors_come_in_the_texts_order_at_length_one(server: RankingServer) -> None:
    server.relevance["far"] = 3.0
    hosted = HostedEmbedder("bge", f"{server.url}/v1", KEY)
    vectors = hosted.embed([*TEXTS, *("x" for _ in range(70)), "far"])
    assert vectors.dtype == numpy.float32
    assert (vectors.shape, hosted.dimensions) == ((74, 2), 2)
    assert numpy.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert vectors[73] == pytest.approx(numpy.array([3, 1]) / numpy.sqrt(10))
    assert [len(asked["input"]) for asked in server.asked] == [32, 32, 10, 1]
    assert server.asked[0] | {"input": []} == {"model": "bge", "input": [], "encoding_format": "float"}
    assert hosted.embed([]).shape == (0, 2)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("service", "said"), [("cohere", "invalid api token"), ("jina", "Failed to authenticate API Key")]
)
def test_a_refused_key_is_the_users_to_change(server: RankingServer, service: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"{service} refused the key: {said}"):
        reranker(server, service, "wrong").score("q", TEXTS)
    with pytest.raises(UsageError, match="the embedder refused the key: Incorrect API key provided"):
        HostedEmbedder("m", f"{server.url}/v1", "wrong").embed(TEXTS)


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        ((429, {"message": "too many\nrequests"}), "cohere answered 429: too many requests"),
        ((500, ["?"]), r"cohere answered 500: \?"),
        ((422, {"error": {"message": "no such model"}}), "cohere answered 422: no such model"),
    ],
)
def test_services_errors_are_said(server: RankingServer, failure: tuple[int, Any], problem: str) -> None:
    server.failure = failure
    with pytest.raises(ToolError, match=problem):
        reranker(server, "cohere").score("q", TEXTS)


ODD: list[Any] = [
    {},
    [],
    {"results": None},
    {"results": [1, {"index": "0"}]},
    {"results": [{"index": 0, "relevance_score": 1.0}]},
    {"results": [{"index": at, "relevance_score": "1"} for at in range(3)]},
    {"results": [{"index": at, "relevance_score": float("nan")} for at in range(3)]},
    {"results": [{"index": at, "relevance_score": [1.0]} for at in range(3)]},
    {"results": [{"index": at, "relevance_score": 10**400} for at in range(3)]},
    {"results": [{"index": at + 1, "relevance_score": 1.0} for at in range(3)]},
]


@pytest.mark.parametrize("body", ODD)
def test_answers_without_a_score_for_each_text_are_refused(server: RankingServer, body: Any) -> None:
    server.body = body
    with pytest.raises(ToolError, match="does not have one relevance_score for each of 3 texts"):
        reranker(server, "jina").score("q", TEXTS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["results", "data", "index", "score", "embedding"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(body=JSON)
def test_whatever_comes_is_numbers_or_refused(server: RankingServer, body: Any) -> None:
    server.body = body
    with suppress(ToolError):
        assert len(reranker(server, "tei").score("q", ["a"])) == 1
    with suppress(ToolError):
        assert HostedEmbedder("m", f"{server.url}/v1", KEY).embed(["a"]).ndim == 2


@pytest.mark.parametrize(
    "vectors",
    [[[1.0, 2.0], [1.0]], [["a"], ["b"]], [[], []], [[float("nan")], [1.0]], [[[1.0]], [[1.0]]], [[10**400], [1.0]]],
)
def test_vectors_that_are_none_are_refused(server: RankingServer, vectors: list[Any]) -> None:
    server.body = {"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]}
    with pytest.raises(ToolError, match="for each"):
        HostedEmbedder("m", f"{server.url}/v1", KEY).embed(["a", "b"])


def test_settings_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("COHERE_API_KEY", "JINA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=r"cohere needs a key: pass api_key=… or set COHERE_API_KEY"):
        HostedReranker("cohere", "rerank-v3.5")
    with pytest.raises(UsageError, match="no service 'voyage' reranks; there are: cohere, jina, tei"):
        HostedReranker("voyage", "x")
    with pytest.raises(UsageError, match="jina: name the model"):
        HostedReranker("jina", api_key=KEY)
    with pytest.raises(UsageError, match="not the address of a server"):
        HostedReranker("tei")
    with pytest.raises(UsageError, match="OpenAI needs a key"):
        resolve_embedder("openai:text-embedding-3-small", "Retriever")
    with pytest.raises(UsageError, match="Retriever: want minilm, openai:MODEL or a folder, not ''"):
        resolve_embedder("", "Retriever")


def test_the_key_shows_nowhere(server: RankingServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.failure = (400, {"message": f"bad key {KEY}"})
    hosted = reranker(server, "cohere")
    with pytest.raises(ToolError) as caught:
        hosted.score("q", TEXTS)
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text + repr(hosted) + repr(vars(hosted))
    assert KEY not in shown
