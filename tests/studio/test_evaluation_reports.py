"""`/v1/studio/evals`: real reports of `retinue eval` are found by name, and nothing else is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Answer, Serving
from retinue import Agent, PromptModel, tool
from retinue.evals.configurations import Configuration
from retinue.evals.questions import Dataset, Question
from retinue.evals.study import Study, conduct, write_reports
from retinue.server.context import Options
from retinue.store.api_keys import create_key

QUESTIONS = (
    Question("film", "Who directed The Piano?", ("Jane Campion",), tags=("people",)),
    Question("deep/é", "How deep is Lake Orlo?", ("84",), tags=("numbers",)),
)


@tool(effects="read")
def look(place: str) -> str:
    """Look."""
    return f"{place} is 84 m deep."


def evaluated(out: Path) -> None:
    """Write a report of two configurations, one of which calls a tool."""
    script = [
        {"when": "Piano", "finish": "Jane Campion"},
        {"when": "m deep", "finish": "84"},
        {"when": "", "call": {"tool": "look", "input": {"place": "Orlo"}}},
    ]
    good = Agent(PromptModel(script=script), [look], strategy="tool_calling", name="good")
    bad = Agent(PromptModel(script=[{"finish": "Nobody <script>"}]), name="bad")
    configurations = [Configuration("good", good), Configuration("bad", bad)]
    study = Study(configurations, Dataset("films", QUESTIONS, None), out)
    write_reports(study, asyncio.run(conduct(study)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evals")
    evaluated(folder / "first run")
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "answers.jsonl").write_text("")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "report.json").write_text('{"format": 1')
    (folder / "forged").mkdir()
    (folder / "forged" / "report.json").write_text('{"format": 1, "about": [], "questions": {}, "figures": [NaN]}')
    (folder / "nothing").mkdir()
    outside = tmp_path_factory.mktemp("outside")
    evaluated(outside / "secret")
    (folder / "linked").symlink_to(outside / "secret")
    (folder / "inner").mkdir()
    (folder / "inner" / "report.json").symlink_to(outside / "secret" / "report.json")
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served"), options=Options(evals=root)) as server:
        yield server


def asked(served: Serving, path: str = "", *scopes: str, **query: str) -> Answer:
    with served.database.engine.begin() as connection:
        key = create_key(connection, scopes=scopes or ("read", "prompts"))
    return served.ask("GET", f"/v1/studio/evals{path}", key=key, params=query)


def test_reports_are_listed_with_what_was_right(served: Serving) -> None:
    answer = asked(served).body
    found = {one["id"]: one for one in answer["data"]}
    assert (set(found), answer["served"]) == ({"first run", "unfinished", "damaged", "forged"}, True)
    assert (found["first run"]["dataset"], found["first run"]["questions"]) == ("films", 2)
    assert [(one["name"], one["right"]["share"]) for one in found["first run"]["configurations"]] == [
        ("good", 1.0), ("bad", 0.0)
    ]  # fmt: skip
    assert found["unfinished"]["written_at"] is None


def test_a_report_has_figures_and_questions(served: Serving) -> None:
    report = asked(served, "/first%20run").body
    assert [one["name"] for one in report["figures"]["configurations"]] == ["good", "bad"]
    assert report["figures"]["pairs"][0]["only_first"] == 2
    first, second = report["questions"]
    assert (first["id"], first["gold"], second["tags"]) == ("film", "Jane Campion", ["numbers"])
    assert {name: run["right"] for name, run in second["runs"].items()} == {"good": True, "bad": False}


def test_a_run_has_its_log_as_events(served: Serving) -> None:
    run = asked(served, "/first%20run/runs", configuration="good", question="deep/é").body
    kinds = [one["type"] for one in run["events"]]
    assert (kinds[0], kinds[-1]) == ("started", "finished")
    assert {"asked", "replied", "called", "observed"} <= set(kinds)
    (called,) = (one["data"]["action"] for one in run["events"] if one["type"] == "called")
    assert called["tool"] == "look"
    assert run["members"] == {}


@pytest.mark.parametrize(
    "path",
    ["/nobody", "/linked", "/inner", "/nothing", "/..", "/%2e%2e", "/..%2fsecret", "/first%20run%2freport.json",
     "/first%20run%00"],
)  # fmt: skip
def test_nothing_else_is_there(served: Serving, path: str) -> None:
    answer = asked(served, path)
    assert answer.status in (400, 404), answer.text
    assert "films" not in answer.text


@pytest.mark.parametrize("given", [("good", "nothing"), ("nobody", "film"), ("", "")])
def test_a_run_that_is_not_kept_is_not_found(served: Serving, given: tuple[str, str]) -> None:
    assert asked(served, "/first%20run/runs", configuration=given[0], question=given[1]).status == 404


@pytest.mark.parametrize("name", ["unfinished", "damaged", "forged"])
def test_without_a_report_it_says_what_to_do(served: Serving, name: str) -> None:
    answer = asked(served, f"/{name}")
    assert (answer.status, answer.error["code"]) == (409, "no_report")
    assert "retinue eval" in answer.error["message"]


@pytest.mark.parametrize("path", ["", "/first%20run", "/first%20run/runs?configuration=good&question=film"])
def test_the_scope_prompts_is_needed(served: Serving, path: str) -> None:
    for scopes in (("read",), ("all",)):
        answer = asked(served, path, *scopes)
        assert (answer.status, answer.error["code"]) == (403, "missing_scope")


def test_a_folder_that_is_an_evaluation_itself_is_listed(root: Path, tmp_path: Path) -> None:
    with Serving(tmp_path, options=Options(evals=root / "first run")) as served:
        assert [one["id"] for one in asked(served).body["data"]] == ["first run"]


def test_without_evals_the_list_is_empty(tmp_path: Path) -> None:
    with Serving(tmp_path) as served:
        assert asked(served).body == {"object": "list", "served": False, "data": []}


def test_the_report_beside_is_json_for_others(root: Path) -> None:
    found: Any = json.loads((root / "first run" / "report.json").read_text("utf-8"))
    assert found["format"] == 1
    assert any("good: model" in line for line in found["about"])
