"""`DeepsetCloudPipeline` and `HaystackPipeline` against a server that speaks their JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.haystack_server import KEY, HaystackServer, answer, document
from retinue import Agent, Document, Pipeline, PromptModel, Tool, ToolError, UsageError
from retinue.components import DeepsetCloudPipeline, HaystackPipeline
from retinue.config import check

Make = Callable[..., DeepsetCloudPipeline | HaystackPipeline]


@pytest.fixture
def haystack(monkeypatch: pytest.MonkeyPatch) -> Iterator[HaystackServer]:
    monkeypatch.setenv("DEEPSET_CLOUD_API_KEY", KEY)
    with HaystackServer() as server:
        server.found["why"] = {
            "answers": [answer("Two readers", meta={"name": "faq.md"}), answer("one", 0.2), answer("")],
            "documents": [
                document("All of\nthe FAQ.", meta={"title": "FAQ"}),
                document("Another.", id="d2", score=None),
            ],
        }
        yield server


@pytest.fixture(params=["cloud", "own"])
def make(haystack: HaystackServer, request: pytest.FixtureRequest) -> Make:
    if request.param == "cloud":
        return lambda **given: DeepsetCloudPipeline(
            **{"pipeline": "docs", "endpoint": f"{haystack.url}/api/v1"} | given
        )
    return lambda **given: HaystackPipeline(**{"base_url": haystack.url} | given)


def test_answers_and_documents(make: Make) -> None:
    found = make().run(" why\n")
    assert found["results"] == "faq.md: Two readers\none"
    first = found["answers"][0]
    assert (first.content, first.score, first.meta["name"]) == ("Two readers", 0.9, "faq.md")
    assert (first.meta["context"], first.meta["document_ids"]) == ("… Two readers …", ["d1"])
    meta = {"content_type": "text", "title": "FAQ"}
    assert found["documents"][0] == Document("All of\nthe FAQ.", "d1", meta, 0.5)
    assert (found["documents"][1].id, found["documents"][1].score) == ("d2", None)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"documents": [document("All of\nthe FAQ.", meta={"name": "FAQ"}), *[document("x")] * 5]},
            "FAQ: All of the FAQ.\nx\nx",
        ),
        ({"results": ["Because.", "", 5], "documents": [document("x")]}, "Because."),
        ({}, "Nothing was found. Try other words."),
        ({"answers": [None, 5, {}, {"answer": 5}, answer("odd", score="high", meta=5)], "documents": None}, "odd"),
    ],
)
def test_what_a_model_is_shown(haystack: HaystackServer, make: Make, found: dict[str, Any], said: str) -> None:
    haystack.found["x"] = found
    assert make().run("x")["results"] == said


def test_what_is_asked(haystack: HaystackServer) -> None:
    DeepsetCloudPipeline("docs", endpoint=f"{haystack.url}/api/v1").run("why")
    HaystackPipeline(haystack.url, "my-key").run("why")
    assert [asked.body for asked in haystack.asked] == [{"queries": ["why"]}, {"query": "why"}]
    assert [asked.headers["Authorization"] for asked in haystack.asked] == [f"Bearer {KEY}", "Bearer my-key"]


def test_in_pipelines_and_as_tools(make: Make) -> None:
    assert [found["results"] for found in make().run_batch(["why", "x"])][1].startswith("Nothing")
    pipeline = Pipeline()
    pipeline.add_node(make(), "Far", ["Query"])
    pipeline.add_node(lambda answers, documents: f"{len(answers)} {len(documents)}", "Count")
    assert pipeline.run("why")["results"] == "2 2"
    tool = Tool("Docs", make())
    assert tool.description == "Answer a question from documents that were indexed for it."
    assert asyncio.run(tool.call("why")).startswith("faq.md: Two readers")


def test_in_a_file(make: Make, tmp_path: Path) -> None:
    agent = Agent(PromptModel(script=[{"when": "FAQ", "call": {"tool": "Docs", "input": "why"}}, {"finish": "Two."}]))
    agent.add_tool("Docs", make(), "the documentation")
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    assert KEY not in (tmp_path / "a.yml").read_text()
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    assert again.run("FAQ: why?").steps[0].observations[0].text == "faq.md: Two readers\none"
    again.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ((404, {"errors": ["Pipeline not found."]}, {}), "404: Pipeline not found"),
        ((422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, {}), "422: field required"),
        ((500, {"detail": "Internal"}, {}), "500: Internal"),
        ((503, {"errors": ["Pipeline is on standby."]}, {"Retry-After": "600"}), "try again in 600 seconds"),
        ((429, {"errors": ["Too many"]}, {}), "429: Too many"),
        ((200, b"<html>", {}), "not the JSON of a pipeline"),
        ((200, [], {}), "not the JSON of a pipeline"),
        ((200, {"results": 5, "answers": {}}, {}), "pipeline|without 'answers', 'documents' or 'results'"),
        ((200, {"error": "x"}, {}), "pipeline|without 'answers', 'documents' or 'results'"),
    ],
)
def test_what_goes_wrong(haystack: HaystackServer, make: Make, said: Any, problem: str) -> None:
    haystack.instead += [said]
    with pytest.raises(ToolError, match=problem):
        make().run("why")


def test_a_wrong_or_missing_key(haystack: HaystackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="deepset Cloud refused the key: Unauthorized") as caught:
        DeepsetCloudPipeline("docs", api_key="wrong-secret", endpoint=f"{haystack.url}/api/v1").run("why")
    assert "wrong-secret" not in str(caught.value)
    monkeypatch.delenv("DEEPSET_CLOUD_API_KEY")
    with pytest.raises(UsageError, match="pass api_key=… or set DEEPSET_CLOUD_API_KEY"):
        DeepsetCloudPipeline("docs")


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_names_that_would_lead_elsewhere(haystack: HaystackServer, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a workspace or pipeline"):
        DeepsetCloudPipeline(name)
