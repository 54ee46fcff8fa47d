"""`SearchEngine` against servers that speak the vendors' JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.search_server import KEY, LIMITED, WRONG_KEY, SearchServer, results
from retinue import Agent, Document, Pipeline, PromptModel, Tool, ToolError, UsageError
from retinue.components import SearchEngine, SerpAPIComponent
from retinue.components.web_search import PROVIDERS, Found, Question, is_within
from retinue.net.service_client import ServiceRequest

RECORDED = Path(__file__).parents[1] / "data" / "formats" / "haystack_example_serperdev_response.json"
KEYS = {
    "serper": ("SERPERDEV_API_KEY", "SERPER_API_KEY"),
    "searchapi": ("SEARCHAPI_API_KEY",),
    "serpapi": ("SERPAPI_API_KEY",),
    "tavily": ("TAVILY_API_KEY",),
}


@pytest.fixture(params=list(PROVIDERS))
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(vendor: str) -> Iterator[SearchServer]:
    with SearchServer(vendor) as server:
        yield server


def searching(server: SearchServer, vendor: str, **options: Any) -> SearchEngine:
    return SearchEngine(vendor, **{"api_key": KEY, "base_url": server.url} | options)


def links(documents: list[Document]) -> list[str]:
    return [document.meta["link"] for document in documents]


def test_results_become_documents(server: SearchServer, vendor: str) -> None:
    server.pages = results(3)
    found = searching(server, vendor).run(" coffee\n")
    assert [document.content for document in found["documents"]] == ["About 1.", "About 2.", "About 3."]
    meta = {"title": "Page 1", "link": "https://example.com/1", "position": 1}
    assert found["documents"][0].meta.items() >= meta.items()
    assert [document.score for document in found["documents"]] == [3 / 6, 2 / 6, 1 / 6]
    assert found["results"].splitlines()[0] == "Page 1: About 1."
    assert "coffee" in server.asked[0].values()


def test_more_results_than_a_page_has_come_from_further_pages(server: SearchServer, vendor: str) -> None:
    server.pages = results(12) + results(3) + results(40)[15:]  # engines repeat themselves
    found = searching(server, vendor, top_k=25).run("x")["documents"]
    expected = 20 - 3 if vendor == "tavily" else 25
    assert [document.meta["position"] for document in found] == list(range(1, len(found) + 1))
    assert len(set(links(found))) == len(found) == expected
    assert len(server.asked) == {"tavily": 1, "wikipedia": 2}.get(vendor, 3)


def test_no_page_is_asked_for_after_an_empty_one(server: SearchServer, vendor: str) -> None:
    server.pages = results(4)
    assert len(searching(server, vendor, top_k=100).run("x")["documents"]) == 4
    assert len(server.asked) == (1 if vendor == "tavily" else 2)


def test_an_engines_own_answer_comes_first(server: SearchServer, vendor: str) -> None:
    server.pages, server.answer = results(4), "47 years"
    found = searching(server, vendor, top_k=3).run("x")
    if vendor == "wikipedia":  # it gives none
        return
    assert found["results"] == "47 years"
    assert [document.content for document in found["documents"]] == ["47 years", "About 1.", "About 2."]
    assert [document.meta["position"] for document in found["documents"]] == [0, 1, 2]
    assert [document.score for document in found["documents"]] == [15 / 18, 2 / 18, 1 / 18]


@pytest.mark.parametrize(
    ("vendor", "asked"),
    [
        ("serper", {"q": "site:a.com OR site:github.com/b x", "hl": "de", "gl": "us"}),
        ("searchapi", {"engine": "google", "q": "site:a.com OR site:github.com/b x", "hl": "de", "gl": "us"}),
        ("serpapi", {"engine": "google", "q": "site:a.com OR site:github.com/b x", "hl": "de", "gl": "us"}),
        ("tavily", {"query": "x", "max_results": 10, "include_answer": True, "country": "us",
                    "include_domains": ["a.com", "github.com/b"]}),
    ],
)  # fmt: skip
def test_domains_language_and_country_are_asked_for(server: SearchServer, vendor: str, asked: dict[str, Any]) -> None:
    server.pages = [
        ("T", "https://www.a.com/x", "in"),
        ("T", "https://nota.com/x", "out"),
        ("T", "https://github.com/b/c", "in"),
    ]
    language = None if vendor == "tavily" else "de"
    search = searching(server, vendor, allowed_domains=["a.com", "github.com/b"], language=language, country="us")
    found = search.run("x")["documents"]
    assert server.asked == [asked]
    assert links(found) == ["https://www.a.com/x", "https://github.com/b/c"]


def test_the_language_chooses_the_wikipedia() -> None:
    assert SearchEngine("wikipedia", language="de")._service.base_url == "https://de.wikipedia.org"
    assert SearchEngine("wikipedia")._service.base_url == "https://en.wikipedia.org"


def test_a_recorded_reply_of_serper() -> None:
    with SearchServer("serper") as server:
        server.failure = (200, RECORDED.read_bytes())
        found = SearchEngine("serper", KEY, base_url=server.url).run("Who is the boyfriend of Olivia Wilde?")
    assert len(found["documents"]) == 9
    first = found["documents"][0]
    assert first.content.startswith("Looks like Olivia Wilde and Jason Sudeikis are starting 2023")
    assert first.meta["date"] == "Jan 29, 2023"
    assert sum(document.score or 0 for document in found["documents"]) == pytest.approx(1)


def test_what_people_also_ask_comes_last() -> None:
    asked = [{"question": "Q?", "snippet": "A.", "title": "T", "link": "https://example.com/q"}, {"question": "R?"}]
    box = {"snippet": "Long.", "snippetHighlighted": ["Short"]}
    organic = [{"title": "T", "link": "https://example.com/1", "snippet": "S"}]
    with SearchServer("serper") as server:
        server.failure = (200, {"answerBox": box, "organic": organic, "peopleAlsoAsk": asked})
        found = SearchEngine("serper", KEY, base_url=server.url).run("x")["documents"]
    assert [(document.content, document.meta["position"]) for document in found] == [("Short", 0), ("S", 1), ("A.", 2)]


def test_serpapicomponent_is_the_engine_on_serpapi() -> None:
    with SearchServer("serpapi") as server:
        server.pages = results(2)
        same = SerpAPIComponent(KEY, base_url=server.url).run("x")
        assert same["results"] == SearchEngine("serpapi", KEY, base_url=server.url).run("x")["results"]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variable", [name for names in KEYS.values() for name in names])
def test_keys_come_from_the_environment(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = next(vendor for vendor, names in KEYS.items() if variable in names)
    for name in KEYS[vendor]:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=f"needs a key: pass api_key=… or set .*{variable}"):
        SearchEngine(vendor)
    monkeypatch.setenv(variable, f"{KEY}\n")
    with SearchServer(vendor) as server:
        SearchEngine(vendor, base_url=server.url).run("x")


def test_a_refused_key_is_the_users_to_change(server: SearchServer, vendor: str) -> None:
    if vendor == "wikipedia":
        server.failure = WRONG_KEY[vendor]
    with pytest.raises(UsageError, match=r"refused the (key: .*API key|key: Unauthorized|request: .*blocked)"):
        searching(server, vendor, api_key="wrong").run("x")


@pytest.mark.parametrize("status", [400, 429, 432, 500, 503])
def test_errors_are_said_as_the_vendor_says_them(server: SearchServer, vendor: str, status: int) -> None:
    server.failure = (status, LIMITED[vendor])
    with pytest.raises(ToolError, match=rf"answered {status}: (Your|You|Too)"):
        searching(server, vendor).run("x")


@pytest.mark.parametrize("body", [b"<!doctype html><h1>502 Bad Gateway</h1>", b"[]", b"null", b"", b"[" * 100_000])
@pytest.mark.parametrize("status", [200, 502])
def test_what_is_no_answer_is_refused(server: SearchServer, vendor: str, body: bytes, status: int) -> None:
    server.failure = (status, body)
    problem = "not the JSON of a search" if status == 200 else r"answered 502: \(no message\)"
    with pytest.raises(ToolError, match=problem):
        searching(server, vendor).run("x")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["organic", "answerBox", "snippet", "title", "link", "results", "answer", "answer_box", "error", "detail",
             "organic_results", "query", "pages", "index", "extract", "snippetHighlighted", "peopleAlsoAsk", "content"]
        ),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300)
@given(st.sampled_from(sorted(PROVIDERS)), JSON)
def test_odd_answers_are_read_or_refused(name: str, body: Any) -> None:
    provider = PROVIDERS[name]()
    if isinstance(body, dict):
        provider.problem(body)
        found = provider.read(body)
        assert all(isinstance(document.content, str) and document.content for document in found.pages)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"provider": "bing"}, "no provider 'bing'; there are: serper"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"allowed_domains": ["a b"]}, "'a b' is not a domain"),
        ({"allowed_domains": ["a.com OR site:b.com"]}, "is not a domain"),
        ({"language": "d&e"}, "not the code of a language"),
        ({"provider": "tavily", "language": "de"}, "Tavily does not support language; it supports domains, country"),
        ({"provider": "wikipedia", "allowed_domains": "a.com"}, "Wikipedia does not support domains"),
    ],
)
def test_settings_that_cannot_work(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        SearchEngine(**{"api_key": KEY} | options)


@pytest.mark.parametrize(
    ("link", "inside"),
    [
        ("https://a.com", True), ("https://A.COM/x", True), ("http://b.a.com:80/", True), ("https://nota.com", False),
        ("https://a.com.evil.org/", False), ("https://evil.org/a.com", False), ("https://a.com@evil.org/", False),
        ("https://g.com/b", True), ("https://g.com/b/c", True), ("https://g.com/bc", False), ("https://g.com/", False),
        ("https://[bad", False), ("", True),
    ],
)  # fmt: skip
def test_what_is_within_a_domain(link: str, inside: bool) -> None:
    assert is_within(Document("x", meta={"link": link}), ["a.com", "g.com/b/"]) is inside


# ── in its places ────────────────────────────────────────────────────────────────────────────────


class Own:
    """An engine of one's own."""

    name = "Own"
    base_url = ""
    key_variables: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    page_size, last_page = 10, 1

    def request(self, asked: Question, key: str) -> ServiceRequest:
        return ServiceRequest("/search", {"query": asked.query})

    def problem(self, body: Any) -> str:
        return ""

    def read(self, body: Any) -> Found:
        return Found(pages=(Document(json.dumps(body), "", {"position": 0}),))


def test_an_engine_of_ones_own() -> None:
    with SearchServer("wikipedia") as server:
        server.failure = (200, {"x": 1})
        assert SearchEngine(Own(), base_url=server.url).run("q")["documents"][0].content == '{"x": 1}'


def test_pipelines_tools_and_batches() -> None:
    with SearchServer("serper") as server:
        server.pages = results(2)
        search = SearchEngine(api_key=KEY, base_url=server.url)
        pipeline = Pipeline()
        pipeline.add_node(search, "Search", ["Query"])
        pipeline.add_node(lambda documents: len(documents), "Count")
        assert pipeline.run("x")["results"] == 2
        assert asyncio.run(Tool("Search", search).call("x")) == "Page 1: About 1.\nPage 2: About 2."
        assert Tool("Search", search).description == "Search the web."
        assert len(search.run_batch(["a", "b"])) == 2


FILE = """\
components:
  - name: Search
    type: SearchEngine
    params: {provider: serper, api_key: "${SECRET}", allowed_domains: [example.com], country: us}
agents:
  - name: a
    params:
      script: [{when: "", times: 1, call: {tool: Search, input: coffee}}, {finish: done}]
      tools: [{name: Search, pipeline_or_node: Search, description: searches}]
"""


def test_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yml").write_text(FILE)
    monkeypatch.setenv("SECRET", KEY)
    with SearchServer("serper") as server:
        server.pages = results(2)
        monkeypatch.setenv("SEARCH_PARAMS_BASE_URL", server.url)
        agent = Agent.load_from_yaml(tmp_path / "a.yml")
        agent.save_to_yaml(tmp_path / "b.yml")
        assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
        assert "About 1." in agent.run("?").transcript
    written = Agent(PromptModel(script=[{"finish": "x"}]), name="w")
    written.add_tool("Search", SearchEngine("serper", KEY, 3, ["a.com"]), "searches")
    written.save_to_yaml(tmp_path / "c.yml")
    assert KEY not in (tmp_path / "c.yml").read_text()
    assert "allowed_domains:" in (tmp_path / "c.yml").read_text()
    monkeypatch.setenv("SEARCH_PARAMS_API_KEY", KEY)
    assert Agent.load_from_yaml(tmp_path / "c.yml").tools[0].something.given["allowed_domains"] == ("a.com",)
