"""`Wikipedia` as in the ReAct paper, against a server that speaks MediaWiki's Action API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.free_services import MediaWikiServer
from retinue import Agent, Budget, Pipeline, PromptModel, RunResult, Tool, ToolError, UsageError
from retinue.components import Wikipedia
from retinue.config import check
from retinue.core.events import Replied

MILHOUSE = """\
Milhouse Mussolini Van Houten is a character in The Simpsons. He is Bart's best friend. He was named after
Richard Nixon. His voice is Pamela Hayden's.
She left in 2024.
== Role ==
Milhouse is Bart's friend. Bart often takes advantage of him"""
PAGES = {
    "Milhouse Van Houten": MILHOUSE,
    "Nixon": "Nixon may refer to:\nRichard Nixon\nNixon (film)",
    "Richard Nixon": "Richard Milhous Nixon was the 37th president. He resigned.",
}
FIRST = (
    "Milhouse Mussolini Van Houten is a character in The Simpsons. He is Bart's best friend. He was named after. "
    "Richard Nixon. His voice is Pamela Hayden's."
)


@pytest.fixture
def wiki() -> Iterator[MediaWikiServer]:
    with MediaWikiServer(PAGES) as server:
        server.redirects["Milhouse"] = "Milhouse Van Houten"
        yield server


def test_searching_gives_the_first_five_sentences(wiki: MediaWikiServer) -> None:
    found = Wikipedia(base_url=wiki.url, contact="me@example.com").run("milhouse\n")
    assert found["results"] == FIRST
    page = found["documents"][0]
    assert (page.content, page.meta["title"]) == (MILHOUSE, "Milhouse Van Houten")
    assert page.id == page.meta["link"] == "https://en.wikipedia.org/wiki/Milhouse_Van_Houten"
    assert wiki.asked[0].headers["User-Agent"].startswith("Retinue/")
    assert wiki.asked[0].headers["User-Agent"].endswith(" (me@example.com)")


@pytest.mark.parametrize(
    ("entity", "said"),
    [
        ("Milhous", "Could not find Milhous. Similar: ['Milhouse Van Houten', 'Richard Nixon']."),
        ("zzz", "Could not find zzz. Similar: []."),
        ("Nixon", "Could not find [Nixon]. Similar: ['Milhouse Van Houten', 'Nixon', 'Richard Nixon']."),
    ],
)
def test_what_is_not_found_or_ambiguous(wiki: MediaWikiServer, entity: str, said: str) -> None:
    found = Wikipedia(base_url=wiki.url).run(entity)
    assert (found["results"], found["documents"]) == (said, [])


def test_pages_marked_as_ambiguous_are(wiki: MediaWikiServer) -> None:
    wiki.ambiguous.add("Richard Nixon")
    assert Wikipedia(base_url=wiki.url).run("Richard Nixon")["results"].startswith("Could not find [Richard Nixon].")


def test_looking_up_alone(wiki: MediaWikiServer) -> None:
    found = asyncio.run(Wikipedia(base_url=wiki.url).lookup("BART", "Milhouse"))
    assert found["results"] == "(Result 1 / 3) He is Bart's best friend."
    assert [document.content for document in found["documents"]] == [
        "He is Bart's best friend.",
        "Milhouse is Bart's friend.",
        "Bart often takes advantage of him.",
    ]
    assert asyncio.run(Wikipedia(base_url=wiki.url).lookup("Lisa", "Milhouse"))["results"] == "No more results."
    assert Wikipedia(base_url=wiki.url, operation="lookup").run("Bart")["results"] == "No more results."


# ── within a run ─────────────────────────────────────────────────────────────────────────────────

SEARCH, LOOKUP = "search", "lookup"
ENOUGH = Budget(steps=40, stale_steps=None)


def an_agent(wiki: MediaWikiServer, *calls: tuple[str, str]) -> Agent:
    """One that makes these calls, one a step."""
    rules = [{"when": "", "times": 1, "call": {"tool": tool, "input": text}} for tool, text in calls]
    return Agent(PromptModel(script=[*rules, {"finish": "done"}]), Wikipedia(base_url=wiki.url).tools(), budget=ENOUGH)


def seen(result: RunResult) -> list[str]:
    return [step.observations[0].text for step in result.steps if step.observations]


def test_looking_up_again_gives_the_next_and_a_search_starts_anew(wiki: MediaWikiServer) -> None:
    calls = [(LOOKUP, "Bart"), (SEARCH, "Milhouse"), *[(LOOKUP, "Bart")] * 5, (LOOKUP, "Nixon"), (LOOKUP, "Bart")]
    calls += [(SEARCH, "Richard Nixon"), (LOOKUP, "nixon"), (SEARCH, "zzz"), (LOOKUP, "nixon"), (LOOKUP, "37")]
    calls += [(SEARCH, "Milhouse"), (LOOKUP, "Bart")]
    said = seen(an_agent(wiki, *calls).run("Begin"))
    assert said[:2] == ["No more results.", FIRST]
    assert said[2:7] == [
        "(Result 1 / 3) He is Bart's best friend.",
        "(Result 2 / 3) Milhouse is Bart's friend.",
        "(Result 3 / 3) Bart often takes advantage of him.",
        "No more results.",
        "No more results.",
    ]
    assert said[7:9] == ["(Result 1 / 1) Richard Nixon.", "(Result 1 / 3) He is Bart's best friend."]
    assert said[10] == "(Result 1 / 1) Richard Milhous Nixon was the 37th president."
    assert said[12:14] == ["No more results.", "(Result 1 / 1) Richard Milhous Nixon was the 37th president."]
    assert said[14].endswith(FIRST), "the former result"
    assert said[15] == "(Result 1 / 3) He is Bart's best friend."


class Environment:
    """The paper's, as it is described: one page, one keyword, a counter."""

    def __init__(self) -> None:
        self.page, self.keyword, self.count = "", "", 0

    def search(self, entity: str) -> None:
        if entity in PAGES and entity != "Nixon":
            self.page, self.keyword = entity, ""

    def lookup(self, keyword: str) -> str:
        self.count = self.count + 1 if keyword == self.keyword else 1
        self.keyword = keyword
        lines = [line for line in PAGES.get(self.page, "").split("\n") if not line.startswith("=")]
        sentences = [one.strip(". ") for line in lines for one in line.split(". ")]
        found = [one for one in sentences if keyword.lower() in one.lower()]
        fits = self.count <= len(found)
        return f"(Result {self.count} / {len(found)}) {found[self.count - 1]}." if fits else "No more results."


CALLS = st.lists(
    st.tuples(st.just(SEARCH), st.sampled_from([*PAGES, "zzz"]))
    | st.tuples(st.just(LOOKUP), st.sampled_from(["Bart", "nixon", "is"])),
    max_size=12,
)


@settings(max_examples=30)
@given(CALLS)
def test_any_calls_give_what_the_papers_environment_gives(wiki: MediaWikiServer, calls: list[tuple[str, str]]) -> None:
    environment = Environment()
    said = seen(an_agent(wiki, *calls).run("Begin"))
    assert len(said) == len(calls)
    for (tool, text), shown in zip(calls, said, strict=True):
        if tool == SEARCH:
            environment.search(text)
        else:
            assert shown == environment.lookup(text)


def test_runs_at_once_do_not_disturb_each_other(wiki: MediaWikiServer) -> None:
    """One agent, many runs: each looks up on its own page, and counts for itself."""
    script = [
        {"when": "About Milhouse", "call": {"tool": SEARCH, "input": "Milhouse"}},
        {"when": "About Nixon", "call": {"tool": SEARCH, "input": "Richard Nixon"}},
        {"when": "character|president", "call": {"tool": LOOKUP, "input": "Richard"}},
        {"finish": "done"},
    ]
    agent = Agent(PromptModel(script=script), Wikipedia(base_url=wiki.url).tools())
    results = agent.run_batch(["About Milhouse", "About Nixon"] * 6, at_once=12)
    said = [seen(result)[1] for result in results]
    assert said == ["(Result 1 / 1) Richard Nixon.", "(Result 1 / 1) Richard Milhous Nixon was the 37th president."] * 6


def test_a_run_that_is_resumed_goes_on_at_the_right_sentence(wiki: MediaWikiServer) -> None:
    calls = [(SEARCH, "Milhouse"), *[(LOOKUP, "Bart")] * 4]
    whole = an_agent(wiki, *calls).run("Begin")
    for cut in range(1, len(whole.events)):
        left = calls[sum(isinstance(event, Replied) for event in whole.events[:cut]) :]
        agent = an_agent(wiki, *left)
        assert seen(agent.resume(whole.events[:cut])) == seen(whole), cut


def test_in_a_pipeline_and_in_a_file(wiki: MediaWikiServer, tmp_path: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_node(Wikipedia(base_url=wiki.url), "Wikipedia", ["Query"])
    assert pipeline.run("Milhouse")["results"] == FIRST
    agent = an_agent(wiki, (SEARCH, "Milhouse"), (LOOKUP, "Bart"), (LOOKUP, "Bart"))
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert [tool.polls for tool in again.tools] == [False, True]
    assert [tool.description for tool in again.tools] == [tool.description for tool in agent.tools]
    assert seen(again.run("Begin"))[2] == "(Result 2 / 3) Milhouse is Bart's friend."
    again.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again


def test_each_tool_takes_one_text(wiki: MediaWikiServer) -> None:
    search, lookup = Wikipedia(base_url=wiki.url).tools()
    assert (search.signature.text_argument, lookup.signature.text_argument) == ("entity", "keyword")
    assert asyncio.run(Tool("Wiki", Wikipedia(base_url=wiki.url)).call("Milhouse")) == FIRST


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            (200, {"error": {"code": "ratelimited", "info": "You've exceeded your rate limit."}}, {}),
            "Wikipedia answered: You",
        ),
        ((429, b"Too many requests", {"Retry-After": "3600"}), "try again in 3,600 seconds"),
        ((403, b"<html>", {}), r"403: \(no message\)"),
        ((200, [], {}), "not the JSON of a query"),
        ((200, {"query": []}, {}), "not the JSON of a query"),
    ],
)
def test_errors_are_said(wiki: MediaWikiServer, said: Any, problem: str) -> None:
    wiki.instead += [said]
    with pytest.raises(ToolError, match=problem):
        Wikipedia(base_url=wiki.url).run("Milhouse")


@pytest.mark.parametrize("query", [{"pages": 5}, {"pages": [5]}, {"pages": [{"title": "x"}]}, {"pages": {"1": {}}}])
def test_odd_pages_are_not_found(wiki: MediaWikiServer, query: Any) -> None:
    wiki.instead += [(200, {"query": query}, {}), (200, {"query": {"search": 5}}, {})]
    assert Wikipedia(base_url=wiki.url).run("Milhouse")["results"] == "Could not find Milhouse. Similar: []."


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"operation": "edit"}, "no operation 'edit'; there are: search, lookup"),
        ({"language": "en.evil.example/"}, "want a language"),
        ({"contact": "a\nb"}, "want contact"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Wikipedia(**settings)
