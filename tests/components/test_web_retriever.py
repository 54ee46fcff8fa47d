"""`WebRetriever` with a search engine's stand-in, a server of pages and a document store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.pages_server import PagesServer
from fakes.search_server import KEY, SearchServer
from retinue import Agent, Document, Pipeline, PromptModel, Tool, ToolError, UsageError
from retinue.components import LinkContentFetcher, SearchEngine, TopPSampler, WebRetriever
from retinue.components.web_pages import RetrievalLimits
from retinue.config import check
from retinue.documents.document_store import DocumentStore


class Web:
    """A search engine and the pages it finds."""

    def __init__(self, search: SearchServer, pages: PagesServer) -> None:
        self.search, self.pages = search, pages

    def has(self, *paths: str) -> None:
        self.search.pages = [(f"T {path}", f"{self.pages.url}{path}", f"snippet of {path}") for path in paths]

    def retriever(self, mode: Any = "document", *, seconds: float = 5.0, **options: Any) -> WebRetriever:
        engine = SearchEngine("serper", KEY, base_url=self.search.url)
        fetcher = LinkContentFetcher([self.pages.place], seconds=seconds)
        return WebRetriever(engine, mode, fetcher=fetcher, **options)


@pytest.fixture
def web() -> Iterator[Web]:
    with SearchServer("serper") as search, PagesServer() as pages:
        yield Web(search, pages)


def test_snippets(web: Web) -> None:
    web.has("/good", "/other", "/404")
    found = web.retriever("snippet", top_k=2).run("x")
    assert [document.content for document in found["documents"]] == ["snippet of /good", "snippet of /other"]
    meta = {"url": f"{web.pages.url}/good", "title": "T /good", "position": 1, "search_score": 0.5}
    assert found["documents"][0].meta == meta
    assert found["results"].startswith(f"[1] T /good {web.pages.url}/good\nsnippet of /good\n\n[2] T /other ")
    assert web.pages.asked == []


def test_pages_come_in_pieces_with_their_source(web: Web) -> None:
    web.has("/good", "/other")
    found = web.retriever(size=60, top_k=20).run("x")["documents"]
    assert all(len(document.content) <= 60 for document in found)
    meta = found[0].meta
    assert (meta["url"], meta["title"], meta["position"]) == (f"{web.pages.url}/good", "T /good", 1)
    assert meta["search_score"] == pytest.approx(2 / 3)
    assert meta["timestamp"]
    of_the_first = [document.meta["part"] for document in found if document.meta["position"] == 1]
    assert of_the_first == list(range(len(of_the_first)))
    assert [document.meta["position"] for document in found] == sorted(document.meta["position"] for document in found)


def test_a_page_that_cannot_be_had_is_there_with_its_snippet(web: Web) -> None:
    web.has("/good", "/404", "/gzip-bomb", "/image", "/loop", "/to?url=http://10.0.0.1/", "/slow")
    found = web.retriever(seconds=1.0, top_k=20).run("x")["documents"]
    contents = {document.meta["url"].removeprefix(web.pages.url): document.content for document in found}
    failed = ["/404", "/gzip-bomb", "/image", "/loop", "/to?url=http://10.0.0.1/", "/slow"]
    assert [contents[path] for path in failed] == [f"snippet of {path}" for path in failed]
    assert "about good" in contents["/good"]


def test_a_pdf_is_its_text(web: Web) -> None:
    web.has("/pdf")
    (document,) = web.retriever(seconds=30.0).run("x")["documents"]
    assert document.content == "Text of a PDF."


def test_all_pages_together_have_so_long(web: Web) -> None:
    web.has("/good", *(f"/slow?{at}" for at in range(9)))
    found = web.retriever(seconds=60, limits=RetrievalLimits(seconds=2.0), top_k=20).run("x")["documents"]
    assert len(found) == 10
    assert found[-1].content == "snippet of /slow?8"


def test_pages_are_fetched_side_by_side(web: Web) -> None:
    web.has(*(f"/wait?n={at}" for at in range(6)))
    web.pages.waiting = 6  # none is answered before all have been asked for
    found = web.retriever(top_k=20).run("x")["documents"]
    assert [f"about {at}" in found[at].content for at in range(6)] == [True] * 6


def test_an_engines_own_answer_stays_and_comes_first(web: Web) -> None:
    web.has("/good")
    web.search.answer = "47 years"
    found = web.retriever(top_k=1).run("x")
    assert found["documents"][0].content == "47 years"
    assert web.pages.asked == ["/good"]


class Longest:
    """Orders by length."""

    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        return {"documents": sorted(documents, key=lambda one: -len(one.content))}


class Half:
    """Leaves half of them out."""

    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        return {"documents": documents[: len(documents) // 2]}


def test_the_sampler_goes_by_the_scores_of_the_search(web: Web) -> None:
    web.has("/1", "/2", "/3", "/4")
    found = web.retriever("snippet", sampler=TopPSampler(0.5)).run("x")["documents"]
    assert [document.meta["title"] for document in found] == ["T /1", "T /2"]


@pytest.mark.parametrize("mode", ["snippet", "document"])
def test_a_ranker_and_a_sampler_have_them_before_they_are_cut(web: Web, mode: str) -> None:
    web.has("/1", "/22", "/333", "/4444")
    found = web.retriever(mode, ranker=Longest(), sampler=Half(), top_k=3).run("x")["documents"]
    assert [document.meta["title"] for document in found] == ["T /4444", "T /333"]


def test_pages_are_kept_until_they_expire(web: Web, tmp_path: Path) -> None:
    web.has("/good", "/404")
    with DocumentStore(tmp_path / "pages.db") as store:
        first = web.retriever(cache=store).run("x")
        assert web.retriever(cache=store).run("y") == first
        assert web.pages.asked.count("/good") == 1
        assert web.pages.asked.count("/404") == 2  # what could not be had is tried again
        expired = web.retriever(cache=DocumentStore(tmp_path / "short.db"), cache_seconds=-1)
        expired.run("x")
        expired.run("x")
        assert web.pages.asked.count("/good") == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"mode": "raw"}, "no mode 'raw'; there are: snippet, document"), ({"top_k": 0}, "top_k must be at least 1")],
)
def test_settings_that_cannot_work(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        WebRetriever(SearchEngine("wikipedia"), **options)


def test_a_search_that_fails_is_said(web: Web) -> None:
    web.search.failure = (429, {"message": "Too many requests"})
    with pytest.raises(ToolError, match="Serper answered 429: Too many requests"):
        web.retriever().run("x")


def test_pipelines_tools_and_batches(web: Web) -> None:
    web.has("/good")
    retriever = web.retriever()
    pipeline = Pipeline()
    pipeline.add_node(retriever, "Web", ["Query"])
    pipeline.add_node(lambda documents: documents[0].content, "First")
    assert "about good" in pipeline.run("x")["results"]
    tool = Tool("Web", retriever)
    assert tool.description == "Find texts on the web."
    assert asyncio.run(tool.call("x")).startswith(f"[1] T /good {web.pages.url}/good\nThe good page")
    assert len(retriever.run_batch(["a", "b"])) == 2


FILE = """\
components:
  - {name: Search, type: SearchEngine, params: {provider: serper, api_key: "${SECRET}", base_url: SEARCH}}
  - {name: Page, type: LinkContentFetcher, params: {allow: [PAGES]}}
  - {name: Kept, type: DocumentStore, params: {path: kept.db}}
  - {name: Few, type: TopPSampler, params: {top_p: 0.5}}
  - name: Web
    type: WebRetriever
    params:
      search_engine: Search
      mode: document
      fetcher: Page
      cache: Kept
      cache_seconds: 60
      size: 500
      sampler: Few
pipelines:
  - {name: p, nodes: [{name: Web, inputs: [Query]}]}
agents:
  - name: a
    params:
      script: [{when: "", times: 1, call: {tool: Web, input: coffee}}, {finish: done}]
      tools: [{name: Web, pipeline_or_node: Web, description: finds}]
"""


def test_in_a_file(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.has("/good")
    (tmp_path / "a.yml").write_text(FILE.replace("SEARCH}", f"{web.search.url}}}").replace("PAGES", web.pages.place))
    monkeypatch.setenv("SECRET", KEY)
    agent = Agent.load_from_yaml(tmp_path / "a.yml")
    agent.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
    assert "about good" in agent.run("?").transcript
    found = Pipeline.load_from_yaml(tmp_path / "a.yml").run("x")["documents"]
    assert "about good" in found[0].content
    assert web.pages.asked == ["/good"]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (FILE.replace("      search_engine: Search\n", ""), "search_engine"),
        (
            FILE.replace("search_engine: Search", "search_engine: Kept"),
            "'Kept' is a DocumentStore; want a SearchEngine",
        ),
        (FILE.replace("cache: Kept", "cache: Search"), "'Search' is a SearchEngine; want a DocumentStore"),
        (FILE.replace("sampler: Few", "ranker: Few"), "'Few' is a TopPSampler; want a Ranker"),
        (FILE.replace("size: 500", "sise: 500"), "sise"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(file: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(file)
    assert any(problem in one.message for one in check(tmp_path / "a.yml"))


def test_saved_with_its_parts(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(
        PromptModel(script=[{"when": "", "times": 1, "call": {"tool": "Web", "input": "x"}}, {"finish": "done"}])
    )
    web.has("/good")
    agent.add_tool("Web", web.retriever(), "finds")
    agent.save_to_yaml(tmp_path / "a.yml")
    assert KEY not in (tmp_path / "a.yml").read_text()
    monkeypatch.setenv("WEB_SEARCH_ENGINE_PARAMS_API_KEY", KEY)
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert "about good" in again.run("?").transcript
    again.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again
