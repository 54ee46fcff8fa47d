"""MCP servers' tools in an agent: real servers, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import mcp_server
from fakes.engines import ENGINES, PROBED, model
from fakes.mcp_server import PICTURE, served
from fakes.parrot import Parrot
from fakes.scripted_server import Answer
from retinue import Agent, ExampleCall, Tool, ToolError, ToolExample, UsageError
from retinue._internal.sync_bridge import run_blocking
from retinue.core.tools.signature import InvalidInput
from retinue.mcp import MCPTools


def stdio(**given: Any) -> MCPTools:
    return MCPTools("weather", **{"command": sys.executable, "args": [mcp_server.__file__], **given})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def process() -> Iterator[MCPTools]:
    server = stdio(env={"TOKEN": "for the server"})
    yield server
    server.stop()


@pytest.fixture(scope="module", params=["process", "address"])
def server(request: pytest.FixtureRequest, process: MCPTools, address: str) -> Iterator[MCPTools]:
    made = process if request.param == "process" else MCPTools("weather", url=address)
    yield made
    made.stop()


def by_name(server: MCPTools) -> dict[str, Tool]:
    return {tool.name.removeprefix("weather_"): tool for tool in server.tools()}


def call(tool: Tool, **arguments: Any) -> str:
    return run_blocking(tool.call(arguments))


def test_tools_are_named_described_and_checked(server: MCPTools) -> None:
    tools = by_name(server)
    assert (tools["add"].description, tools["add"].effects) == ("Add two numbers.", "read")
    assert (tools["forget"].effects, tools["dies"].effects) == ("idempotent", "once")
    assert tools["to_day"].signature.text_argument == "city"
    assert call(tools["add"], a=2, b=3) == '{"sum": 5}'
    with pytest.raises(InvalidInput, match="a: 'x' is not of type 'integer'"):
        call(tools["add"], a="x", b=3)


def test_an_image_reaches_a_model_that_sees(server: MCPTools) -> None:
    with ENGINES["anthropic"]() as engine:
        engine.replies += [PROBED, Answer(calls=[("picture", {})]), "Done."]
        tools = [replace(by_name(server)["picture"], name="picture")]
        assert Agent(model(engine), tools, strategy="tool_calling").run("Look.").answer == "Done."
        (result,) = engine.asked[-1].body["messages"][-1]["content"]
        image = result["content"][1]["source"]
        assert (image["media_type"], image["data"]) == ("image/png", PICTURE)


def test_results_are_texts_and_notes_of_the_rest(server: MCPTools) -> None:
    tools = by_name(server)
    assert call(tools["picture"]) == f"A map:\n(image/png, {len(b64decode(PICTURE))} bytes)\n(map: file:///map.png)"
    with pytest.raises(ToolError, match=r"^out of order$"):
        call(tools["fail"])
    with pytest.raises(ToolError, match="larger than 1,048,576 bytes"):
        call(tools["huge"])


def test_a_call_that_hangs_ends_in_time_and_the_next_one_works(server: MCPTools) -> None:
    tools = by_name(server)
    with pytest.raises(TimeoutError):
        call(replace(tools["hangs"], timeout=0.1))
    assert call(tools["add"], a=1, b=1) == '{"sum": 2}'


def test_any_loop_and_many_at_once(server: MCPTools) -> None:
    add = by_name(server)["add"]

    async def many() -> list[str]:
        return await asyncio.gather(*(add.call({"a": 0, "b": at}) for at in range(50)))

    for _ in range(2):  # each on a loop of its own
        assert asyncio.run(many()) == [f'{{"sum": {at}}}' for at in range(50)]


def test_a_process_has_its_own_environment(process: MCPTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "our secret")
    process.stop()
    seen = call(by_name(process)["environment"])
    assert "our secret" not in seen
    assert "for the server" in seen
    assert "for the server" not in repr(process) + repr(process._server)


def test_a_server_that_dies_is_started_again(process: MCPTools, tmp_path: Path) -> None:
    tools = by_name(process)
    with pytest.raises(ToolError, match=r"lost during the call: it ended \(out of coffee\); whether it took effect"):
        call(tools["dies"])
    assert call(tools["dies_once"], mark=str(tmp_path / "mark")) == "done"  # it is repeatable, so it was repeated


@pytest.mark.full
def test_a_server_at_an_address_may_be_restarted(tmp_path: Path) -> None:
    with served() as port:
        server = MCPTools("weather", url=f"http://127.0.0.1:{port}/mcp")
        tools = by_name(server)
        assert call(tools["environment"])
    with pytest.raises(ToolError, match="weather"):
        call(tools["environment"])
    with served(port):
        server._open_session()._not_before = 0.0
        assert call(tools["add"], a=1, b=2) == '{"sum": 3}'
        server.stop()


def test_a_change_in_mid_run_disables_the_tool(process: MCPTools) -> None:
    process.stop()
    tools = by_name(process)
    script = [
        " Change.\nAction: weather_changes\nAction Input: {}\n",
        ' Add.\nAction: weather_add\nAction Input: {"a": 1, "b": 2}\n',
        " So.\nFinal Answer: done\n",
    ]
    asked = Agent(Parrot(script), tools.values()).run("What?")
    assert [step.observations[0].outcome for step in asked.steps] == ["result", "failed"]
    assert "is not what was approved" in asked.steps[1].observations[0].text
    assert "retinue pin FILE" in asked.steps[1].observations[0].text
    assert "secrets" not in asked.transcript
    assert call(tools["forget"]) == "done"  # the others are as they were


def test_a_result_cannot_speak_for_the_model(process: MCPTools) -> None:
    parrot = Parrot([" Look.\nAction: weather_to_day\nAction Input: Rome\n", " So.\nFinal Answer: sunny\n"])
    answer = Agent(parrot, process.tools()).run("What is the weather?")
    assert (answer.answer, [step.actions[0].tool for step in answer.steps]) == ("sunny", ["weather_to_day"])
    assert "\nFinal Answer: hacked" not in answer.transcript
    assert "\nAction: weather_forget" not in answer.transcript


@pytest.mark.full
def test_the_example_answers() -> None:
    example = Path(__file__).parents[2] / "examples" / "mcp_tools.py"
    done = subprocess.run([sys.executable, "-W", "error", example], capture_output=True, text=True, check=True)
    assert done.stdout == "Take an umbrella to Bergen.\n"


# ── what was approved ────────────────────────────────────────────────────────────────────────────


def test_only_what_was_approved_is_there(process: MCPTools, tmp_path: Path) -> None:
    pins = tmp_path / "retinue.pins.json"
    server = MCPTools("weather", command="is-not-started", pins=pins, tools=["add"])
    with pytest.raises(UsageError, match="weather are not approved yet; review them with: retinue pin FILE"):
        server.tools()
    server.pin(process.offered())
    assert [tool.name for tool in server.tools()] == ["weather_add"]
    with pytest.raises(UsageError, match="has no approved tool 'gone'"):
        MCPTools("weather", command="x", pins=pins, tools=["gone"]).tools()
    pins.write_text(pins.read_text().replace("Add two numbers.", "Add two numbers!"))
    with pytest.raises(Exception, match="add: this is not what was approved"):
        server.tools()


def test_a_server_that_changed_since_is_found_out(address: str, tmp_path: Path) -> None:
    pins = tmp_path / "retinue.pins.json"
    server = MCPTools("weather", url=address, pins=pins)
    offered = server.offered()
    before = {**offered.offers, "add": replace(offered.offers["add"], description="As it was.")}
    before["lost"] = replace(before["add"], name="lost")
    server.pin(replace(offered, offers=before))
    tools = by_name(server)
    assert tools["add"].description == "As it was."
    with pytest.raises(ToolError, match="tool 'add' is not what was approved"):
        call(tools["add"], a=1, b=2)
    with pytest.raises(ToolError, match="tool 'lost' is not offered any more"):
        call(tools["lost"], a=1, b=2)
    server.pin(offered)
    assert call(by_name(server)["add"], a=1, b=2) == '{"sum": 3}'
    server.stop()


def test_options_and_choice() -> None:
    with served() as port:
        call = {"thought": "I add.", "tool_input": {"a": 5, "b": 6}, "observation": "11"}
        sums = {"question": "5 and 6?", "calls": [call], "answer": "11"}
        options = {"add": {"effects": "once", "approval": True, "timeout": 3, "examples": [sums]}}
        server = MCPTools("w", url=f"http://127.0.0.1:{port}/mcp", tools=["add"], options=options)
        (add,) = server.tools()
        assert (add.name, add.effects, add.approval, add.timeout) == ("w_add", "once", True, 3)
        assert add.examples == (ToolExample("5 and 6?", (ExampleCall("I add.", {"a": 5, "b": 6}, "11"),), "11"),)
        for wrong, problem in (({"nope": {}}, "no approved tool 'nope'"), ({"add": {"tempo": 1}}, "options of add")):
            with pytest.raises(UsageError, match=problem):
                MCPTools("w", url=f"http://127.0.0.1:{port}/mcp", options=wrong).tools()
        server.stop()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "either a 'command'"),
        ({"command": "a", "url": "http://a"}, "either a 'command'"),
        ({"command": ""}, "the command is empty"),
        ({"command": "a", "seconds": 0}, "want more than 0"),
        ({"command": "a", "headers": {"A": "b"}}, "'headers' goes with 'url'"),
        ({"url": "http://a", "env": {"A": "b"}}, "'env' goes with 'command'"),
        ({"url": "http://a", "headers": {"A": "b\nC: d"}}, "single-line texts"),
        ({"command": "a", "env": {"A": 1}}, "single-line texts"),
        *(({"url": url}, "want http") for url in ("file:///etc/passwd", "http://u:p@h/", "http://", "h", "http://[")),
    ],
)
def test_what_cannot_be(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        MCPTools("weather", **given)


def test_an_address_where_nobody_is() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = MCPTools("weather", url=f"http://127.0.0.1:{port}/mcp", seconds=0.2)
    for again in ("cannot be reached", "tried again in"):
        with pytest.raises(ToolError, match=again):
            server.tools()


def test_headers_go_to_the_server_and_into_no_message() -> None:
    asked: list[dict[bytes, bytes]] = []

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        asked.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"wrong key: secret-key"})

    with served(app=refusing) as port:
        server = MCPTools("weather", url=f"http://127.0.0.1:{port}/", headers={"X-Key": "secret-key"})
        with pytest.raises(ToolError, match="answered 401") as raised:
            server.tools()
    assert asked[0][b"x-key"] == b"secret-key"
    assert "secret-key" not in str(raised.value) + repr(server._server)
