"""Images in an agent's question: where they come from, what a model is shown, and a log that goes on without them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fakes.engines import ENGINES, PROBED, model
from fakes.loopback import Loopback
from fakes.pictures import data_url, gif, png
from fakes.scripted_server import Answer, ScriptedServer
from retinue import Agent, Executor, Message, PromptModel, RunResult, StopReason, UsageError
from retinue.core.events import Started
from retinue.core.files import read_file
from retinue.core.serialization import from_json, to_json
from retinue.net.file_source import load_files
from retinue.net.ssrf_guard import SsrfGuard
from retinue.strategies import STRATEGIES
from retinue.tools import calculator

RED = png()


def seeing(*says: str) -> PromptModel:
    return PromptModel(script=[{"when": "", "say": one, "times": 1} for one in says], sees=True, engine="scripted")


def shown(body: Any) -> list[str]:
    """The pictures in a request, in base64."""
    return re.findall(r"base64,([^\"]+)\"", json.dumps(body))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "auto"])
def test_every_strategy_shows_the_image_beside_the_question(strategy: str) -> None:
    with ENGINES["openai"]() as server:
        server.replies += [PROBED] * (strategy == "tool_calling")
        server.always = lambda request: Answer("FINAL ANSWER: red")
        agent = Agent(model(server, sees=True), [calculator], strategy=strategy, max_steps=2)
        history = [Message("user", "And this?", files=(read_file(gif()),)), Message("assistant", "A gif.")]
        agent.run("What color is this?", files=[RED], history=history)
        asked = server.asked[strategy == "tool_calling" :]
        assert asked
        for request in asked:
            seen = shown(request.body)
            assert sorted(seen) == sorted(base64.b64encode(one).decode() for one in (gif(), RED))
            turn = next(one for one in request.body["messages"] if base64.b64encode(RED).decode() in json.dumps(one))
            assert turn["role"] == "user"
            assert "What color is this?" in json.dumps(turn)


def test_all_that_an_image_may_come_from(tmp_path: Path) -> None:
    path = tmp_path / "red.png"
    path.write_bytes(RED)
    result = Agent(seeing("red")).run("Which?", files=[RED, path, str(path), data_url(RED), read_file(RED)])
    started = result.events[0]
    assert isinstance(started, Started)
    assert {one.data for one in started.files} == {RED}
    assert len(started.files) == 5


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"no image", "8 bytes: this is no file"),
        ("missing.png", "missing.png: No such file"),
        ("http://127.0.0.1:9/x.png", "port 9 is not one of the web's"),
        ("http://127.0.0.1/x.png", "127.0.0.1"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("data:image/png,abc", "want a data URL"),
        ("file:///etc/passwd", "No such file"),
    ],
)
def test_what_is_no_image_is_said(source: str | bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        Agent(seeing("red")).run("Which?", files=[source])


@pytest.mark.parametrize("how", ["files", "history"])
def test_a_model_that_cannot_see_is_not_asked(how: str) -> None:
    with ENGINES["ollama"]() as server:
        agent = Agent(model(server), strategy="react")
        given: dict[str, Any] = {"files": [RED]}
        if how == "history":
            given = {"history": [Message("user", "This.", files=(read_file(RED),))]}
        with pytest.raises(UsageError, match=r"'fake-model' is not known to see images.*`sees: true`"):
            agent.run("Which?", **given)
        assert not server.asked


def test_an_executor_has_no_eyes() -> None:
    with pytest.raises(UsageError, match="not known to see"):
        Executor([calculator]).run({"tool": "Calculator", "input": "1"}, files=[RED])


def fallen(server: ScriptedServer) -> tuple[Agent, RunResult]:
    """An agent whose run called a tool, and then lost its model."""
    agent = Agent(model(server, sees=True), [calculator], strategy="tool_calling")
    server.replies += [PROBED, Answer(calls=[("Calculator", {"expression": "2+2"})])]
    server.always = lambda request: Answer(status=500, error="down")
    result = agent.run("How many?", files=[RED])
    assert result.stop_reason is StopReason.ERROR
    server.always = None
    server.replies += ["four"]
    return agent, result


def test_a_run_goes_on_with_its_images() -> None:
    with ENGINES["anthropic"]() as server:
        agent, result = fallen(server)
        again = agent.resume(result.events)
        assert again.answer == "four"
        assert base64.b64encode(RED).decode() in server.asked[-1].raw.decode()


def test_a_stored_log_holds_no_bytes_and_goes_on_when_it_is_given_them() -> None:
    with ENGINES["anthropic"]() as server:
        agent, result = fallen(server)
        stored = [to_json(event) for event in result.events]
        assert base64.b64encode(RED).decode() not in "".join(stored)
        log = [from_json(line) for line in stored]
        assert tuple(log) == result.events
        assert "the bytes of the file" in agent.resume(log).error
        assert agent.resume(log, files=[RED]).answer == "four"


def test_an_address_is_fetched_through_the_guard_and_its_own_words_are_not_believed() -> None:
    async def picture(_: web.Request) -> web.Response:
        return web.Response(body=RED, content_type="text/html")

    app = web.Application()
    app.router.add_get("/red", picture)
    server = Loopback(app)
    server.start()
    try:
        allowing = SsrfGuard(allow=(server.url.removeprefix("http://"),))
        (found,) = asyncio.run(load_files([f"{server.url}/red"], allowing))
    finally:
        server.stop()
    assert (found.media_type, found.data) == ("image/png", RED)
