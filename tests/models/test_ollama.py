"""What is Ollama's alone: its options, its window, its calls without ids."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fakes.asking import reply, request
from fakes.engines import ENGINES, model
from fakes.scripted_server import Answer, ScriptedServer, failure
from retinue import Message, ModelNotFound, ModelRefused, PromptModel
from retinue.core.prompt import Ask
from retinue.core.tools.tool import make_tool


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ENGINES["ollama"]() as server:
        yield server


def look(where: str) -> str:
    """Look somewhere."""
    return where


def test_parameters_of_the_model_are_options(server: ScriptedServer) -> None:
    server.replies += ["ok"]
    chosen = model(server, temperature=0.5, context=4096, options={"seed": 7, "keep_alive": "5m", "think": False})
    reply(chosen, request(stop=["\n"], max_tokens=9))
    body = server.asked[0].body
    assert body["options"] == {"temperature": 0.5, "num_predict": 9, "num_ctx": 4096, "stop": ["\n"], "seed": 7}
    assert (body["keep_alive"], body["think"], body["stream"]) == ("5m", False, True)


def test_the_window_is_the_one_that_is_asked_for(server: ScriptedServer) -> None:
    assert asyncio.run(model(server).abilities()).window == 8192
    assert asyncio.run(model(server, options={"num_ctx": 512}).abilities()).window == 512


def test_calls_get_ids_and_results_go_by_the_tools_name(server: ScriptedServer) -> None:
    server.replies += [Answer(calls=[("look", {"where": "here"}), ("look", {"where": "there"})]), "found"]
    first = request("Where?")
    asked = Ask(first.prompt, first.news, first.write, tools=(make_tool(look),))
    calls = reply(model(server), asked).calls
    assert [call.id for call in calls] == ["call_0", "call_1"]
    results = [Message("tool", "yes", call_id=call.id, tool=call.tool) for call in calls]
    told = asked.prompt.add(Message("assistant", "", calls), *results)
    reply(model(server), Ask(told, "yes", first.write, tools=asked.tools))
    turn, *seen = server.asked[1].body["messages"][1:]
    assert turn["tool_calls"][1] == {"function": {"name": "look", "arguments": {"where": "there"}}}
    assert seen == [{"role": "tool", "content": "yes", "tool_name": "look"}] * 2


def test_tools_that_must_not_be_called_are_not_offered(server: ScriptedServer) -> None:
    server.replies += ["ok"]
    asked = request()
    reply(model(server), Ask(asked.prompt, "", asked.write, tools=(make_tool(look),), tool_choice="none"))
    assert "tools" not in server.asked[0].body


def test_without_a_name_the_first_model_is_taken(server: ScriptedServer) -> None:
    server.replies += ["ok"]
    assert PromptModel("ollama", base_url=server.url).run("?").text == "ok"
    assert server.asked[0].body["model"] == "fake-model"


def test_an_address_that_is_no_ollama_is_said(server: ScriptedServer) -> None:
    with pytest.raises(ModelRefused, match="answered 404"):
        PromptModel("ollama", base_url=f"{server.url}/elsewhere").run("?")


def test_a_model_that_is_not_pulled_is_said_with_the_one_that_was_meant(server: ScriptedServer) -> None:
    server.replies += [failure(404, "model 'fake-modle' not found, try pulling it first")]
    with pytest.raises(ModelNotFound, match=r"/api has no model 'fake-modle'; did you mean 'fake-model'\?$"):
        PromptModel("fake-modle", engine="ollama", base_url=server.url).run("?")
