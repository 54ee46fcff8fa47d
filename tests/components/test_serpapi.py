"""`SerpAPIComponent` against a server that speaks SerpAPI's JSON."""

from __future__ import annotations

import asyncio
import logging
import traceback
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.serpapi_server import INVALID_KEY, KEY, OUT_OF_SEARCHES, SerpAPIServer, organic
from retinue import Document, Pipeline, Tool, ToolError, UsageError
from retinue.components import SerpAPIComponent
from retinue.net import service_client


@pytest.fixture
def serpapi() -> Iterator[SerpAPIServer]:
    with SerpAPIServer() as server:
        yield server


def searching(server: SerpAPIServer, **settings: Any) -> SerpAPIComponent:
    return SerpAPIComponent(**{"api_key": KEY, "base_url": server.url} | settings)


def test_pages_become_documents(serpapi: SerpAPIServer) -> None:
    serpapi.found["coffee"] = {"organic_results": organic("A beverage.", "Beans,\n roasted.")}
    found = searching(serpapi).run(query="  coffee\n")
    meta = {"title": "Page 1", "link": "https://example.com/1", "source": "Example", "position": 1}
    assert found["documents"][0] == Document("A beverage.", "https://example.com/1", meta)
    assert [document.content for document in found["documents"]] == ["A beverage.", "Beans, roasted."]
    assert found["results"] == "Page 1: A beverage.\nPage 2: Beans, roasted."
    assert serpapi.asked == [{"engine": "google", "q": "coffee", "api_key": KEY}]


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ({"type": "organic_result", "answer": "47 years", "snippet": "He was born in 1975."}, "47 years"),
        ({"type": "calculator_result", "result": "3.14"}, "3.14"),
        ({"type": "organic_result", "title": "T", "snippet": "A\nsnippet."}, "A snippet."),
        ({"type": "organic_result", "snippet_highlighted_words": ["Jason Sudeikis", "Wilde"]}, "Jason Sudeikis"),
        ([{"type": "population_result", "answer": 12}], "12"),
        ({"type": "organic_result", "answer": {"odd": 1}, "snippet": "still"}, "still"),
    ],
)
def test_the_answer_box_comes_first(serpapi: SerpAPIServer, box: Any, said: str) -> None:
    serpapi.found["x"] = {"answer_box": box, "organic_results": organic("a", "b")}
    found = searching(serpapi, top_k=2).run("x")
    assert found["results"] == said
    assert [document.content for document in found["documents"]] == [said, "a"]
    assert found["documents"][0].meta["position"] == 0


@pytest.mark.parametrize("box", [None, [], {}, "text", {"type": "weather_result", "forecast": []}, {"answer": True}])
def test_a_box_without_an_answer_is_none(serpapi: SerpAPIServer, box: Any) -> None:
    serpapi.found["x"] = {"answer_box": box, "organic_results": organic("a")}
    assert searching(serpapi).run("x")["results"] == "Page 1: a"


def test_a_model_is_shown_three_snippets_and_no_more(serpapi: SerpAPIServer) -> None:
    serpapi.found["x"] = {"organic_results": [{"title": "Only a title"}, {"link": "nothing"}, *organic(*"abcdefgh")]}
    found = searching(serpapi, top_k=5).run("x")
    assert found["results"] == "Only a title\nPage 1: a\nPage 2: b"
    assert [document.meta["position"] for document in found["documents"]] == [1, 2, 3, 4, 5]


def test_finding_nothing_is_no_error(serpapi: SerpAPIServer) -> None:

    found = searching(serpapi).run("x")
    assert (found["results"], found["documents"]) == ("Nothing was found. Try other words.", [])


def test_batches_pipelines_and_tools(serpapi: SerpAPIServer) -> None:
    serpapi.found |= {word: {"answer_box": {"answer": word.upper()}} for word in "ab"}
    search = searching(serpapi, name="Serp", inputs=["Query"])
    assert [found["results"] for found in search.run_batch(["a", "b"])] == ["A", "B"]
    pipeline = Pipeline()
    pipeline.add_node(search, "Serp", ["Query"])
    pipeline.add_node(lambda results, documents: f"{results} {len(documents)}", "Count")
    assert pipeline.run("a")["results"] == "A 1"
    assert asyncio.run(Tool("Search", search).call("b")) == "B"
    assert Tool("Search", search).description == "Search the web with Google."


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


def test_the_key_comes_from_the_environment_too(serpapi: SerpAPIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPAPI_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"SerpAPI needs a key: pass api_key=… or set SERPAPI_API_KEY"):
        SerpAPIComponent(api_key=None, name="Serp", inputs=["Query"])
    monkeypatch.setenv("SERPAPI_API_KEY", f"{KEY}\n")
    SerpAPIComponent(base_url=serpapi.url).run("x")
    assert serpapi.asked[0]["api_key"] == KEY


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"api_key": "a\nb"}, "characters that no key has"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"inputs": ["Other"]}, "set its inputs where it is added"),
        *(
            ({"base_url": url}, "not the address of a server")
            for url in ("x", "file:///etc", "http://", "http://a:b@c")
        ),
    ],
)
def test_settings_that_cannot_work(serpapi: SerpAPIServer, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        searching(serpapi, **settings)


@pytest.mark.parametrize(("query", "problem"), [(" \n", "the query is empty"), ("x" * 3000, "longer than 2,000")])
def test_queries_that_are_not_sent(serpapi: SerpAPIServer, query: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        searching(serpapi).run(query)
    assert serpapi.asked == []


def test_a_refused_key_is_the_users_to_change(serpapi: SerpAPIServer) -> None:
    with pytest.raises(UsageError, match=f"SerpAPI refused the key: {INVALID_KEY}"):
        searching(serpapi, api_key="wrong").run("x")


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        ((429, OUT_OF_SEARCHES), f"SerpAPI answered 429: {OUT_OF_SEARCHES}"),
        ((503, "We couldn't get valid results."), "SerpAPI answered 503: We couldn't get valid results."),
        ((200, "Unsupported `xx` country"), "SerpAPI answered 200: Unsupported `xx` country"),
        ((500, ""), r"SerpAPI answered 500: \(no message\)"),
    ],
)
def test_serpapis_errors_are_said(serpapi: SerpAPIServer, failure: tuple[int, str], problem: str) -> None:
    serpapi.failure = failure
    with pytest.raises(ToolError, match=problem):
        searching(serpapi).run("x")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"[" * 100_000, b"\xff\xfe", b'"text"', b""])
def test_what_is_no_answer_is_refused(serpapi: SerpAPIServer, body: bytes) -> None:
    serpapi.body = body
    with pytest.raises(ToolError, match="not the JSON of a search"):
        searching(serpapi).run("x")


@pytest.mark.parametrize("body", [b"{}", b'{"organic_results": {"a": 1}}', b'{"organic_results": [1, null, [], {}]}'])
def test_odd_shapes_are_nothing_found(serpapi: SerpAPIServer, body: bytes) -> None:
    serpapi.body = body
    assert searching(serpapi).run("x")["documents"] == []


def test_size_packing_redirects_and_time_have_limits(serpapi: SerpAPIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_client, "MAX_ANSWER", 1_000)
    serpapi.body = b" " * 1_001
    with pytest.raises(ToolError, match="larger than 1,000 bytes"):
        searching(serpapi).run("x")
    serpapi.body, serpapi.headers = b"{}", {"Content-Encoding": "br"}
    with pytest.raises(ToolError, match="unsupported Content-Encoding: br"):
        searching(serpapi).run("x")
    serpapi.redirect = f"{serpapi.url}/search.json"
    with pytest.raises(ToolError, match="answered 302, a redirect"):
        searching(serpapi).run("x")
    assert len(serpapi.asked) == 3
    serpapi.hang = True
    with pytest.raises(ToolError, match=r"did not answer within 0\.1 seconds"):
        searching(serpapi, seconds=0.1).run("x")


def test_a_server_that_is_not_there(serpapi: SerpAPIServer) -> None:
    serpapi.drop = True
    with pytest.raises(ToolError, match="SerpAPI broke off the connection"):
        searching(serpapi).run("x")
    with pytest.raises(ToolError, match="SerpAPI cannot be reached: Connection refused"):
        searching(serpapi, base_url="http://127.0.0.1:1").run("x")


FORMS = (KEY, "secret%2Fkey%2B1%3D", b64encode(KEY.encode()).decode())


@pytest.mark.parametrize("failing", ["echo", "broken", "refused", "drop", "redirect", "hang", "nowhere", "found"])
def test_the_key_shows_nowhere(serpapi: SerpAPIServer, failing: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = " ".join(FORMS)
    if failing == "echo":
        serpapi.failure = (400, f"bad request: {echo}")
    elif failing == "broken":
        serpapi.body = echo.encode()
    elif failing == "refused":
        serpapi.failure = (401, echo)
    elif failing == "found":
        serpapi.found["x"] = {"organic_results": organic(echo)}
    elif failing == "redirect":
        serpapi.redirect = "https://example.com/"
    else:
        setattr(serpapi, "hang" if failing == "hang" else "drop", True)
    url = "http://127.0.0.1:1" if failing == "nowhere" else serpapi.url
    search = searching(serpapi, base_url=url, seconds=0.2)
    try:
        said = repr(search.run("x"))
    except (ToolError, UsageError) as error:
        said = "".join(traceback.format_exception(error))
        context = error.__context__
        assert context is None or "Timeout" in repr(context)
    text = said + caplog.text + repr(search) + repr(search._service) + repr(serpapi.url)
    assert not [form for form in FORMS if form in text]
