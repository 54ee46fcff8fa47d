"""The demo "technical_docs": its questions, with a model that says what it is told to."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from fakes.said import Said
from retinue import Agent, Budget, DocumentStore, GitHubAPI, IssueLink, Retriever, RunResult, SearchEngine, Tool
from retinue.documents import index_folder
from retinue.server.studio.agent_outline import AgentOutline

FOLDER = Path(__file__).parents[2] / "examples" / "technical_docs"
sys.path.append(str(FOLDER))  # as if it were run there
demo, research = importlib.import_module("demo"), importlib.import_module("research")
LINK = f"https://github.com/{demo.REPOSITORY}/issues/new?"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentStore]:
    with DocumentStore(tmp_path_factory.mktemp("demo") / "index.sqlite") as store:
        index_folder(demo.DOCS, store)
        yield store


def answered(store: DocumentStore, question: str, *replies: str) -> RunResult:
    with demo.stand_ins(demo.REPOSITORY) as address:
        issues = GitHubAPI("none", demo.REPOSITORY, top_k=3, base_url=address)
        tools = [
            Tool("documentation", Retriever(store, top_k=3), effects="read"),
            Tool("web", SearchEngine("serper", "none", 3, base_url=address), effects="read"),
            Tool("issues", issues, effects="read"),
            Tool("new_issue", IssueLink(demo.REPOSITORY, ["question", "documentation"]), effects="read"),
            Tool("say", demo.say, effects="read", polls=True),
        ]
        return Agent(Said(replies), tools, strategy=research.Research(), budget=Budget(steps=30)).run(question)


def told(result: RunResult) -> list[str]:
    return [str(action.tool_input) for step in result.steps for action in step.actions if action.tool == "say"]


def calls(result: RunResult) -> list[str]:
    return [action.tool for step in result.steps for action in step.actions if action.tool != "say"]


def seen(result: RunResult) -> str:
    return "\n".join(one.text for step in result.steps for one in step.observations)


def test_the_documentation_answers(store: DocumentStore) -> None:
    result = answered(store, demo.QUESTIONS[0], "documentation", "The extra rank.", "yes")
    assert (result.answer, calls(result), told(result)) == ("The extra rank.", ["documentation"], [])


def test_the_web_answers_what_is_not_in_the_documentation_and_the_user_is_told(store: DocumentStore) -> None:
    replies = ["documentation", "not stated", "users of Retinue", "not stated", "Lindqvist Libraries.", "yes"]
    result = answered(store, demo.QUESTIONS[1], *replies)
    assert result.answer == "Lindqvist Libraries."
    assert calls(result) == ["documentation", "documentation", "web"]
    assert told(result) == ["Found nothing in the indexed documentation. Will continue with web search."]
    assert "Lindqvist Libraries" in seen(result)


def test_an_issue_answers(store: DocumentStore) -> None:
    replies = ["issues", "CRAWLER_PARAMS_PAGES", "Set it before the process starts.", "yes"]
    result = answered(store, demo.QUESTIONS[2], *replies)
    assert (result.answer, calls(result)) == ("Set it before the process starts.", ["issues"])
    assert "#212" in seen(result)


def test_names_from_the_documentation_are_searched_for_in_open_issues_and_made_up_ones_are_not(
    store: DocumentStore,
) -> None:
    described, names = "components of a standard question answering pipeline", "Retriever, Reader, Frobnicator"
    replies = [described, names, "Yes: #231, of the Reader.", "yes"]
    result = answered(store, demo.QUESTIONS[3], *replies)
    assert (result.answer, calls(result)) == ("Yes: #231, of the Reader.", ["documentation", "issues", "issues"])
    searches = [action.tool_input for step in result.steps for action in step.actions if action.tool == "issues"]
    assert searches == [{"query": name, "state": "open"} for name in ("Retriever", "Reader")]
    assert "#231" in seen(result)
    assert "#240" not in seen(result)  # it is closed


NOWHERE = ["documentation", "not stated", "puzzle", "not stated", "grid", "crossword", "grid"]


@pytest.mark.parametrize("more", ["", " & <b>#1</b>?labels=bug " + "é" * 5_000])
def test_without_an_answer_a_link_to_a_new_issue_is_offered(store: DocumentStore, more: str) -> None:
    question = demo.UNANSWERABLE + more
    result = answered(store, question, *NOWHERE)
    assert told(result)[-1] == "Found nothing anywhere. Here is a link with which you can ask."
    link = result.answer[result.answer.index(LINK) :]
    assert len(link) <= 8_000
    assert " " not in link
    given = parse_qs(urlsplit(link).query)
    assert set(given) == {"title", "body", "labels"}
    assert given["labels"] == ["question,documentation"]
    assert given["title"][0].startswith(demo.UNANSWERABLE)
    assert len(given["title"][0]) <= 200
    if not more:
        assert "the indexed documentation: puzzle" in given["body"][0]
        assert "the issues: crossword" in given["body"][0]


def test_an_answer_that_the_model_does_not_stand_by_is_none(store: DocumentStore) -> None:
    replies = ["web", "Oberau.", "no", "town", *["not stated"] * 2, "town", "not stated", "x1y2", "x1y2"]
    result = answered(store, demo.QUESTIONS[1], *replies)
    assert LINK in result.answer


def test_words_of_the_model_are_no_operators_of_a_search(store: DocumentStore) -> None:
    replies = ["issues", "repo:other/private Reader", "org:secret", *["not stated"] * 9]
    result = answered(store, "What is wrong?", *replies)
    queries = [str(action.tool_input) for step in result.steps for action in step.actions if action.tool == "issues"]
    assert queries
    assert not any("repo:" in query or "org:" in query for query in queries)


def test_the_file_suggests_the_demos_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERPER_API_KEY", "SERPERDEV_API_KEY", "DEMO_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    with demo.services():
        agent = demo.demo_agent()
    assert agent.questions == demo.QUESTIONS
    assert AgentOutline().of("demo", agent)["questions"] == list(demo.QUESTIONS)


@pytest.mark.model
@pytest.mark.long
def test_the_embedded_model_answers_from_the_web_and_from_an_issue(embedded_model: Path) -> None:
    """In a process of its own, where it says the same each time."""
    command = [sys.executable, str(FOLDER / "demo.py"), *demo.QUESTIONS[1:3]]
    done = subprocess.run(command, capture_output=True, text=True)
    answers = [line for line in done.stdout.splitlines() if line.startswith("╰─")]
    assert ["Lindqvist" in answers[0], "before" in answers[1]] == [True, True]
