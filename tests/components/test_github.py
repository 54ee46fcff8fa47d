"""`GitHubAPI` and `IssueLink` against a server that speaks GitHub's REST API."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st

from fakes.github_server import TOKEN, GitHubServer, error, issue, primary_limit, secondary_limit
from retinue import Agent, Pipeline, PromptModel, Tool, ToolError, UsageError
from retinue.components import GitHubAPI, IssueLink, issue_link
from retinue.config import check

REPOSITORY = "deepset-ai/haystack"


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with GitHubServer() as server:
        server.issues[REPOSITORY] = [
            issue(1, "Duplicate answers", "The reader\r\ngives two.", labels=["bug", "topic:reader"]),
            issue(2, "overwrite_with_env_variables in RayPipeline", "It is ignored.", labels=["bug"]),
            issue(3, "Reader is slow", state="closed"),
            issue(4, "Fix the reader", "A change.", labels=["bug"], pull_request=True),
        ]
        server.comments[(REPOSITORY, 2)] = ["Same here.", "Set it\nin the YAML."]
        server.code[REPOSITORY] = {"haystack/ray.py": "def overwrite_with_env_variables(definition):"}
        yield server


def api(server: GitHubServer, **settings: Any) -> GitHubAPI:
    return GitHubAPI(**{"repository": REPOSITORY, "base_url": server.url} | settings)


def titles(found: Any) -> list[str]:
    return [document.meta["title"] for document in found["documents"]]


# ── what it finds ────────────────────────────────────────────────────────────────────────────────


def test_searching_issues(github: GitHubServer) -> None:
    found = api(github).run("duplicate\n answers")
    assert found["results"] == (
        "#1 [open] Duplicate answers (bug, topic:reader) https://github.com/o/r/issues/1: The reader gives two."
    )
    document = found["documents"][0]
    assert (document.content, document.id) == ("The reader\ngives two.", "https://github.com/o/r/issues/1")
    assert document.meta == {
        "title": "Duplicate answers",
        "link": "https://github.com/o/r/issues/1",
        "number": 1,
        "state": "open",
        "labels": ["bug", "topic:reader"],
        "comments": 0,
    }
    assert github.asked[0].params["q"] == f"duplicate answers repo:{REPOSITORY} is:issue"
    assert github.asked[0].headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert "Authorization" not in github.asked[0].headers


@pytest.mark.parametrize(
    ("arguments", "query", "found"),
    [
        ({"query": "reader"}, f"reader repo:{REPOSITORY} is:issue", ["Duplicate answers", "Reader is slow"]),
        ({"query": "reader", "state": "closed"}, f"reader repo:{REPOSITORY} is:issue state:closed", ["Reader is slow"]),
        ({"query": "reader is:pr"}, f"reader is:pr repo:{REPOSITORY}", ["Fix the reader"]),
        ({"query": "reader repo:other/one"}, "reader repo:other/one is:issue", []),
        ({"query": "reader", "repository": "other/one"}, "reader repo:other/one is:issue", []),
    ],
)
def test_what_a_search_asks_for(github: GitHubServer, arguments: dict[str, str], query: str, found: list[str]) -> None:
    assert titles(asyncio.run(api(github).search_issues(**arguments))) == found  # type: ignore[arg-type]
    assert github.asked[0].params["q"] == query


def test_searching_code_needs_a_token(github: GitHubServer) -> None:
    with pytest.raises(UsageError, match="GitHub wants a key: Requires authentication"):
        api(github, operation="search_code").run("env_variables")
    found = api(github, operation="search_code", token=TOKEN).run("overwrite_with_env_variables")
    assert found["results"].startswith(
        "haystack/ray.py https://github.com/deepset-ai/haystack/blob/main/haystack/ray.py: def"
    )
    assert found["documents"][0].content == "def overwrite_with_env_variables(definition):"
    assert found["documents"][0].meta["repository"] == REPOSITORY


@pytest.mark.parametrize(
    "named", ["2", "#2", f"{REPOSITORY}#2", f"https://github.com/{REPOSITORY}/issues/2#issuecomment-7"]
)
def test_reading_an_issue(github: GitHubServer, named: str) -> None:
    github.comments[(REPOSITORY, 2)] += ["x" * 2_000] + ["more"] * 20
    found = api(github, operation="read_issue").run(named)
    said = found["results"].split("\n\n")
    assert said[0] == "#2 [open] overwrite_with_env_variables in RayPipeline (bug) https://github.com/o/r/issues/2"
    assert said[1:4] == ["It is ignored.", "user1: Same here.", "user2: Set it\nin the YAML."]
    assert said[4] == "user3: " + "x" * 1_000 + " …"
    assert said[-1] == "(13 more comments)"
    assert [document.content for document in found["documents"][:3]] == [
        "It is ignored.",
        "Same here.",
        "Set it\nin the YAML.",
    ]


def test_listing_open_issues_by_label(github: GitHubServer) -> None:
    listing = api(github, operation="list_issues")
    assert titles(listing.run("bug")) == ["overwrite_with_env_variables in RayPipeline", "Duplicate answers"]
    assert titles(listing.run("bug,topic:reader")) == ["Duplicate answers"]
    assert len(asyncio.run(listing.list_issues())["documents"]) == 2
    assert listing.run("none")["results"] == "Nothing was found. Try other words."


def test_as_many_pages_are_read_as_it_takes_and_no_more(github: GitHubServer) -> None:
    pulls = [issue(100 + at, "A change", pull_request=True) for at in range(70)]
    github.issues[REPOSITORY] = [*(issue(at, f"Number {at}") for at in range(1, 31)), *pulls]
    found = api(github, operation="list_issues", top_k=3).run("")
    assert titles(found) == ["Number 30", "Number 29", "Number 28"]
    assert [asked.params.get("page") for asked in github.asked] == [None, "2", "3"]
    assert {asked.params["per_page"] for asked in github.asked} == {"30"}
    github.issues[REPOSITORY] = [issue(100 + at, "A change", pull_request=True) for at in range(1_000)]
    assert titles(api(github, operation="list_issues").run("")) == []
    assert len(github.asked) == 3 + 5


def test_batches_pipelines_and_enterprise(github: GitHubServer) -> None:
    search = api(github, base_url=f"{github.url}/api/v3/", token=TOKEN)
    assert [titles(found) for found in search.run_batch(["duplicate", "nothing"])] == [["Duplicate answers"], []]
    assert github.asked[0].path == "/api/v3/search/issues"
    pipeline = Pipeline()
    pipeline.add_node(search, "Issues", ["Query"])
    pipeline.add_node(lambda documents: len(documents), "Count")
    assert pipeline.run("reader")["results"] == 2


# ── as tools, and in files ───────────────────────────────────────────────────────────────────────


def test_each_operation_is_a_tool_with_arguments_that_a_model_understands(github: GitHubServer) -> None:
    tools = {tool.name: tool for tool in api(github, token=TOKEN).tools()}
    assert list(tools) == ["search_issues", "search_code", "read_issue", "list_issues"]
    parameters = tools["search_issues"].signature.parameters
    assert parameters["required"] == ["query"]
    assert parameters["properties"]["state"]["enum"] == ["open", "closed", "any"]
    assert parameters["properties"]["query"]["description"] == "a few words that would be in the issue"
    assert tools["search_issues"].description.startswith("Search the issues of a project on GitHub")
    assert {tool.effects for tool in tools.values()} == {"read"}
    assert asyncio.run(tools["read_issue"].call({"issue": 2})).startswith("#2 [open] overwrite")
    assert "Duplicate" in asyncio.run(tools["search_issues"].call({"query": "reader", "state": "open"}))


def test_an_agent_uses_several_of_them_and_loads_again_from_a_file(github: GitHubServer, tmp_path: Path) -> None:
    script = [
        {"when": "with Ray", "call": {"tool": "search_issues", "input": {"query": "RayPipeline"}}},
        {"when": "^#2 .*: It is", "call": {"tool": "read_issue", "input": {"issue": "#2"}}},
        {"when": "Set it", "finish": "Set it in the YAML."},
    ]
    agent = Agent(PromptModel(script=script), api(github, token=TOKEN).tools())
    assert agent.run("How do I set environment variables with Ray?").answer == "Set it in the YAML."
    agent.save_to_yaml(tmp_path / "agent.yml")
    assert check(tmp_path / "agent.yml") == []
    text = (tmp_path / "agent.yml").read_text()
    assert TOKEN not in text
    with pytest.MonkeyPatch.context() as environment:
        for name in ("SEARCH_ISSUES", "SEARCH_CODE", "READ_ISSUE", "LIST_ISSUES"):
            environment.setenv(f"{name}_PARAMS_TOKEN", TOKEN)
        again = Agent.load_from_yaml(tmp_path / "agent.yml")
        again.save_to_yaml(tmp_path / "again.yml")
        assert Agent.load_from_yaml(tmp_path / "again.yml") == again
        assert again.tools[0].signature.parameters == agent.tools[0].signature.parameters
        assert again.run("How do I set environment variables with Ray?").answer == "Set it in the YAML."


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


def test_short_limits_are_waited_for(github: GitHubServer) -> None:
    github.instead += [primary_limit(time.time() - 5), secondary_limit("0")]
    assert titles(api(github).run("duplicate")) == ["Duplicate answers"]
    assert len(github.asked) == 3


@pytest.mark.parametrize(
    ("limits", "problem", "asked"),
    [
        ([primary_limit(time.time() + 3_000)], r"its rate limit is reached\); try again in [23],\d\d\d seconds, at", 1),
        ([secondary_limit("1e6")], "try again in 1,000,000 seconds", 1),
        ([secondary_limit(None, 403)], "try again in 60 seconds", 1),
        ([secondary_limit("Wed, 21 Oct 2099 07:28:00 GMT")], "try again in ", 1),
        ([secondary_limit("0")] * 9, "try again in 0 seconds", 3),
    ],
)
def test_long_limits_are_said(github: GitHubServer, limits: list[Any], problem: str, asked: int) -> None:
    github.instead += limits
    with pytest.raises(ToolError, match=problem):
        api(github).run("duplicate")
    assert len(github.asked) == asked


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            error(403, "Resource not accessible by personal access token"),
            "GitHub answered 403: Resource not accessible",
        ),
        (error(404, "Not Found"), "GitHub answered 404: Not Found"),
        (error(422, "Validation Failed", errors=[{"message": "too long"}]), "422: Validation Failed: too long"),
        ((502, b"<html>", {}), r"502: \(no message\)"),
        ((200, b"<html>", {}), "not the JSON of a list"),
        ((200, {"items": 5}, {}), "not the JSON of a list"),
        ((200, {"items": "text"}, {}), "not the JSON of a list"),
        ((200, ["a"] * 3, {"Link": '<http://[>; rel="next"'}), ""),
        (
            (200, {"items": [None, 5, {}, {"number": "1", "title": []}, {"number": 1, "title": "T", "labels": 5}]}, {}),
            "",
        ),
    ],
)
def test_errors_and_odd_shapes(github: GitHubServer, said: Any, problem: str) -> None:
    github.instead += [said]
    if problem:
        with pytest.raises(ToolError, match=problem):
            api(github).run("duplicate")
    else:
        assert set(titles(api(github).run("duplicate"))) <= {"T", "Duplicate answers"}


def test_what_cannot_be_asked(github: GitHubServer) -> None:
    for operation, query, problem in [
        ("search_issues", " ", "the query is empty"),
        ("read_issue", "the second", "want the number of an issue"),
        ("read_issue", "../../user#2", "want the"),
        ("read_issue", "o/..#2", "want the repository as owner/name"),
    ]:
        with pytest.raises(ToolError, match=problem):
            api(github, operation=operation).run(query)
    with pytest.raises(ToolError, match="say which repository"):
        api(github, operation="list_issues", repository=None).run("bug")
    assert github.asked == []
    with pytest.raises(ToolError, match="404: Not Found"):
        api(github, operation="read_issue").run("77")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"operation": "delete"}, "no operation 'delete'; there are: search_issues"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"repository": "haystack"}, "want repository as owner/name"),
        ({"token": "a\nb"}, "characters that no key has"),
    ],
)
def test_settings_that_cannot_work(github: GitHubServer, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        api(github, **settings)


@pytest.mark.parametrize("token", [TOKEN, "wrong-secret"])
def test_the_token_is_sent_and_shows_nowhere(github: GitHubServer, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", f"{token}\n")
    search = api(github)
    github.issues[REPOSITORY].append(issue(9, f"Look: {token}"))
    try:
        said = repr(search.run("look:"))
    except UsageError as problem:
        said = "".join(traceback.format_exception(problem))
        assert "GitHub refused the key: Bad credentials" in said
    assert github.asked[0].headers["Authorization"] == f"Bearer {token}"
    assert token not in said + repr(search) + repr(search._service)


# ── the link to a new issue ──────────────────────────────────────────────────────────────────────


def test_the_link_has_all_of_it_filled_in() -> None:
    link = issue_link(
        REPOSITORY, "No answer\n& none found", "**Tried**: a=b&c #1\n", ["type:docs", "bug"], "bug_report.md"
    )
    assert link.startswith(f"https://github.com/{REPOSITORY}/issues/new?title=No%20answer%20%26%20none%20found&")
    assert parse_qs(urlsplit(link).query) == {
        "title": ["No answer & none found"],
        "labels": ["type:docs,bug"],
        "template": ["bug_report.md"],
        "body": ["**Tried**: a=b&c #1\n"],
    }


@given(st.text(), st.text(max_size=20_000) | st.integers(0, 20_000).map(lambda size: "ä " * size))
def test_the_link_is_never_too_long_and_reads_back(title: str, body: str) -> None:
    link = issue_link(REPOSITORY, title, body)
    assert len(link) <= 8_000
    assert link.isascii()
    found = parse_qs(urlsplit(link).query, keep_blank_values=True).get("body", [""])[0]
    whole = body.encode("utf-8", "replace").decode()
    assert found == whole or whole.startswith(found.removesuffix(" …"))


def test_as_a_tool_it_only_makes_a_link(tmp_path: Path) -> None:
    tool = Tool("new_issue", IssueLink(REPOSITORY, ["question"]), effects="read")
    link = asyncio.run(tool.call({"title": "How?", "body": "I want to."}))
    assert link == issue_link(REPOSITORY, "How?", "I want to.", ["question"])
    pipeline = Pipeline()
    pipeline.add_node(IssueLink(REPOSITORY), "Link", ["Query"])
    assert pipeline.run("How?")["results"] == issue_link(REPOSITORY, "How?")
    Agent(PromptModel(script=["x"]), [tool]).save_to_yaml(tmp_path / "a.yml")
    assert Agent.load_from_yaml(tmp_path / "a.yml").tools[0].something.given == tool.something.given
    with pytest.raises(ToolError, match="the title is empty"):
        IssueLink(REPOSITORY).run(" ")
    with pytest.raises(UsageError, match="want the repository as owner/name"):
        IssueLink("o/r/../x")
    with pytest.raises(UsageError, match="longer than 8,000"):
        IssueLink(REPOSITORY, ["x" * 9_000])
