"""Templates in headers and queries of tools: what they stand for is known when a tool is called, and kept nowhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from fakes.loopback import Served
from retinue import Agent, PromptModel
from retinue.config import check
from retinue.config.tool_files import load_tools
from retinue.core.events import Observed
from retinue.core.run_context import RunContext, current_run
from retinue.core.serialization import dump
from retinue.errors import DataError

TOKEN = "tok+alice/0123456789="


class Echo(Served):
    """Says what it was sent, as it is and coded."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        app = web.Application()
        app.router.add_post("/{path:.*}", self._say)
        super().__init__(app)

    async def _say(self, request: web.Request) -> web.Response:
        self.paths.append(request.raw_path)
        sent = request.headers.get("X-Token", "")
        coded = [base64.b64encode((" " * at + sent).encode()).decode() for at in range(3)]
        return web.json_response({"sent": [sent, quote(sent, safe=""), *coded], "trip": request.headers.get("X-Trip")})


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server


def tools_file(folder: Path, **entry: Any) -> Path:
    path = folder / "tools.yml"
    shown = {"description": "Shows.", "effects": "read", "callable_api": "http://127.0.0.1:9/x", **entry}
    path.write_text(json.dumps({"show": shown}), "utf-8")
    return path


def run(folder: Path, given: dict[str, Any], **entry: Any) -> tuple[str, str]:
    """What the model is told, and the whole log."""
    call = {"tool": "show", "input": {"query": "all"}}
    model = PromptModel(script=[{"when": "begin", "call": call}, {"when": "", "say": "So."}])
    agent = Agent(model, load_tools(tools_file(folder, **entry)), strategy="tool_calling")
    log = agent.run("begin", **given).events
    [text] = [one.observation.text for one in log if isinstance(one, Observed)]
    return text, "".join(dump(one)[1] for one in log)


def test_a_call_has_what_its_run_says(echo: Echo, tmp_path: Path) -> None:
    query = "a=${user.id}&b=${thread.id}&c=${run.id}&d=${metadata.trip}&e=${user.secret:TOKEN}"
    headers = {"X-Token": "Bearer ${user.secret:TOKEN}", "X-Trip": "to ${metadata.trip}"}
    given = {
        "user": "a&b=c/é",
        "thread": "t 1",
        "key": "run_1",
        "metadata": {"trip": "rome"},
        "secrets": {"TOKEN": TOKEN},
    }
    text, log = run(tmp_path, given, callable_api=f"{echo.url}/events?{query}", headers=headers)
    assert echo.paths == [f"/events?a=a%26b%3Dc%2F%C3%A9&b=t%201&c=run_1&d=rome&e={quote(TOKEN, safe='')}"]
    assert json.loads(text)["trip"] == "to rome"
    assert json.loads(text)["sent"][:2] == ["Bearer ***", "Bearer%20***"]
    forms = [
        TOKEN,
        quote(TOKEN, safe=""),
        *(base64.b64encode(b" " * at + TOKEN.encode()).decode()[4:-4] for at in range(3)),
    ]
    assert [form for form in forms if form in text + log] == []


def test_without_a_store_the_environment_is_asked(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    text, _ = run(tmp_path, {}, callable_api=f"{echo.url}/x", headers={"X-Token": "${tenant.secret:TOKEN}"})
    assert json.loads(text)["sent"][0] == "***"


@pytest.mark.parametrize(
    ("header", "given", "says"),
    [
        ("${user.secret:TOKEN}", {"secrets": {}}, "the user of this run has no secret TOKEN"),
        ("${tenant.secret:TOKEN}", {"secrets": {"TOKEN": ""}}, "the tenant of this run has no secret TOKEN"),
        ("${user.id}", {}, "it needs ${user.id}, which this run does not have"),
        ("${metadata.trip}", {"metadata": {"other": "x"}}, "it needs ${metadata.trip}, which this run does not have"),
        ("${metadata.trip}", {"metadata": {"trip": "a\r\nX-Token: b"}}, "want printable ASCII on one line"),
        ("${user.secret:TOKEN}", {"secrets": {"TOKEN": "a\nX-Token: b"}}, "want printable ASCII on one line"),
    ],
)
def test_nothing_is_sent_without_it(echo: Echo, tmp_path: Path, header: str, given: dict[str, Any], says: str) -> None:
    text, _ = run(tmp_path, given, callable_api=f"{echo.url}/x", headers={"X-Token": header})
    assert says in text
    assert echo.paths == []


def test_a_function_asks_the_context() -> None:
    async def look() -> str:
        here: RunContext[Any] = current_run()
        return f"{here.user} has {await here.secret('TOKEN')}"

    model = PromptModel(script=[{"when": "look", "call": {"tool": "look", "input": {}}}, {"when": "", "say": "So."}])
    agent = Agent(model, [look], strategy="tool_calling")
    log = agent.run("look", user="alice", secrets={"TOKEN": TOKEN}).events
    assert [one.observation.text for one in log if isinstance(one, Observed)] == ["alice has ***"]
    other = agent.run("look", user="bob", secrets={"TOKEN": f"another {TOKEN[::-1]}"}).events
    assert [one.observation.text for one in other if isinstance(one, Observed)] == ["bob has ***"]


def test_what_is_ones_secret_is_none_in_the_texts_of_another() -> None:
    async def look() -> str:
        await current_run().secret("TOKEN")
        return "It is a Wednesday."

    model = PromptModel(script=[{"when": "look", "call": {"tool": "look", "input": {}}}, {"when": "", "say": "So."}])
    agent = Agent(model, [look], strategy="tool_calling")
    said = []
    for secret in ("Wednesday", "something else"):
        log = agent.run("look", secrets={"TOKEN": secret}).events
        said += [one.observation.text for one in log if isinstance(one, Observed)]
    assert said == ["It is a ***.", "It is a Wednesday."]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"headers": {"X": "${user.name}"}}, "headers: X: '${user.name}' is unknown; there are ${user.id}, "),
        ({"headers": {"X": "${user.secret:A-B}"}}, "'${user.secret:A-B}' is unknown"),
        ({"callable_api": "http://127.0.0.1:9/x?u=${users.id}"}, "callable_api: '${users.id}' is unknown"),
        ({"callable_api": "http://127.0.0.1:9/${user.id}"}, "${user.id} can stand in headers only, and in the query"),
        ({"callable_api": "http://${tenant.id}.example/x"}, "${tenant.id} can stand in headers only"),
    ],
)
def test_what_no_run_says_is_refused_as_the_file_is_loaded(tmp_path: Path, entry: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError) as error:
        load_tools(tools_file(tmp_path, **entry))
    assert says in str(error.value)


def warned(folder: Path, **entry: Any) -> list[str]:
    return [str(one) for one in check(tools_file(folder, **entry)) if "same credentials" in str(one)]


@pytest.mark.parametrize(
    ("entry", "warns"),
    [
        ({"headers": {"Authorization": "Bearer ${KEY}"}}, True),
        ({"headers": {"X-Api-Key": "abc"}}, True),
        ({"labels": ["private"]}, True),
        ({"headers": {"Authorization": "Bearer ${user.secret:KEY}"}}, False),
        ({"headers": {"Authorization": "Bearer ${KEY}", "X-User": "${user.id}"}}, False),
        ({"labels": ["private"], "callable_api": "http://127.0.0.1:9/x?for=${tenant.id}"}, False),
        ({"headers": {"Authorization": "Bearer ${KEY}"}, "labels": []}, False),
        ({"headers": {"X-Trip": "rome"}}, False),
        ({}, False),
    ],
)
def test_check_warns_of_what_shows_everybody_the_same_private_data(
    tmp_path: Path, entry: dict[str, Any], *, warns: bool
) -> None:
    assert bool(warned(tmp_path, **entry)) == warns
