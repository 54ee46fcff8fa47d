"""Agents, pipelines and tools as an MCP server, driven by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from fakes.fork_server import retinue
from fakes.mcp_server import served
from fakes.parrot import Parrot
from retinue import Agent, Pipeline, PromptModel, Tool, UsageError, __version__, tool
from retinue.components import PromptNode
from retinue.mcp.mcp_server import build_app, build_server
from retinue.net.retry import Retries
from retinue.tools import calculator

FILE = """
components:
  - {name: Upper, type: PythonRuntime}
pipelines:
  - {name: python, nodes: [{name: Upper, inputs: [Query]}]}
tools:
  sum: {callable_api: calculator}
  loud: {callable_api: "loud.py:loud"}
agents:
  - name: the guide
    params:
      role_description: You know sums.
      script:
        - {when: give up, call: {tool: nope, input: x}}
        - {when: "^8", finish: It is 8.}
        - {when: power, call: {tool: sum, input: 2^3}}
"""
LOUD = '''
def loud(word: str) -> str:
    """Prints."""
    print("printed", word)
    return word.upper()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.yml").write_text(FILE)
    (tmp_path / "loud.py").write_text(LOUD)
    return tmp_path


def text(result: Any) -> tuple[bool, str]:
    return bool(result.is_error), result.content[0].text


def test_a_file_on_standard_input_and_output(folder: Path) -> None:
    command = ["-m", "retinue", "mcp", str(folder / "agents.yml"), "the guide", "python", "loud"]
    seen: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async def drive() -> None:
        parameters = StdioServerParameters(command=sys.executable, args=command, cwd=folder, env=environment())
        async with Client(parameters) as client:
            listed = {one.name: one for one in (await client.list_tools()).tools}
            assert list(listed) == ["ask_the_guide", "run_python", "loud"]
            assert listed["ask_the_guide"].description == "You know sums."
            assert listed["ask_the_guide"].input_schema["required"] == ["question"]
            asked = await client.call_tool(
                "ask_the_guide", {"question": "2 to the power of 3?"}, progress_callback=progress
            )
            assert text(asked) == (False, "It is 8.")
            assert text(await client.call_tool("run_python", {"query": "2 + 3"})) == (False, "5")
            assert text(await client.call_tool("loud", {"word": "a"})) == (False, "A")
            failed = await client.call_tool("ask_the_guide", {"question": "give up"})
            assert text(failed)[0]
            assert text(failed)[1].startswith("the model behind it cannot be reached, or failed")
            for name, given, problem in (
                ("ask_the_guide", {}, "question: Field required"),
                ("nope", {}, "there is no tool 'nope'"),
                ("loud", {"word": "a", "x": 1}, "x: Extra inputs"),
            ):
                wrong = text(await client.call_tool(name, given))
                assert wrong[0]
                assert problem in wrong[1]

    asyncio.run(drive())
    assert "sum is called" in seen


def environment() -> dict[str, str]:
    return {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────

KEY = "the key"


class Slow:
    """A tool that waits, and says whether it was cancelled."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

    async def __call__(self, query: str) -> str:
        """Waits."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return ""


@tool
def broken(query: str) -> str:
    """Breaks."""
    raise ZeroDivisionError("by zero")


SLOW = Slow()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    asking = [" Wait.\nAction: slow\nAction Input: x\n"] * 9
    agent = Agent(Parrot(asking), [Tool("slow", SLOW, "waits")], name="slow")
    server = build_server([agent, calculator, broken, Tool("asks", SLOW, "Asks.", approval=True)])
    with served(app=build_app(server, KEY)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def test_calls_over_http_and_their_cancelling(address: str) -> None:
    async def drive() -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert text(await client.call_tool("Calculator", {"expression": "2^3"})) == (False, "8")
            assert text(await client.call_tool("broken", {"query": "x"})) == (True, "ZeroDivisionError: by zero")
            assert "person's approval" in text(await client.call_tool("asks", {"query": "x"}))[1]
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "ask_slow", {"question": "wait"})
                assert await asyncio.to_thread(SLOW.began.wait, 10)
                group.cancel_scope.cancel()
            assert await asyncio.to_thread(SLOW.ended.wait, 10)

    asyncio.run(drive())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {KEY}"}, 401),
        ({"Authorization": f"Bearer {KEY}", "Host": "evil.test"}, 421),
        ({"Authorization": f"Bearer {KEY}", "Host": "127.0.0.1.evil.test:80"}, 421),
        ({"Authorization": f"Bearer {KEY}", "Origin": "http://evil.test"}, 403),
        ({"Authorization": f"Bearer {KEY}", "Origin": "http://localhost:3000"}, 403),
    ],
)
def test_strangers_are_refused(address: str, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    more = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, body, {**more, **headers})
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request)
    raised.value.close()
    assert raised.value.code == status


def test_the_command_makes_a_key_and_says_it(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "retinue", "mcp", str(folder / "agents.yml"), "--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        process.terminate()
    assert said[0] == f"http://127.0.0.1:{port}/mcp\n"
    assert re.fullmatch(r"the key of this run: Authorization: Bearer \S{40,}\n", said[1])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nobody"], "no agent, pipeline or tool 'nobody'; there are: the guide, python, sum, loud"),
        (["--http", "x"], "HOST:PORT"),
    ],
)
def test_what_cannot_be_served(
    folder: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from retinue.cli import main

    assert main(["mcp", str(folder / "agents.yml"), *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_names_and_inputs_that_cannot_be_served() -> None:
    agents = [Agent(Parrot([]), name=name) for name in ("a b", "a_b")]
    with pytest.raises(UsageError, match="would both be called 'ask_a_b'"):
        build_server(agents)
    with pytest.raises(UsageError, match="cannot be served: its only input must be a query"):
        build_server([Pipeline(inputs=("a", "b"))])
    with pytest.raises(UsageError, match="nothing to serve"):
        build_server([])


def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "agents.yml").write_text("calculator: {callable_api: calculator}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = retinue("mcp", "agents.yml", "--http", address, cwd=tmp_path)
    said = f"retinue: cannot listen on {address}: the port is in use; give another with --http (0: any that is free)\n"
    assert (done.returncode, done.stderr) == (2, said)


# ── what a client is told ────────────────────────────────────────────────────────────────────────


@tool(approval=True, effects="once")
def pay(amount: float) -> str:
    """Pays."""
    return "paid"


@tool(effects="read")
def unreachable(query: str) -> str:
    """Breaks."""
    raise ConnectionError("no way")


def test_what_a_client_is_told_of_servers_people_and_engines(caplog: pytest.LogCaptureFixture) -> None:
    url = "http://127.0.0.1:1"
    lost = PromptModel("m", base_url=url, api_key="sk-0123456789", retries=Retries(tries=1))
    call = {"tool": "pay", "input": {"amount": 5}}
    half = PromptModel(
        script=[{"when": "no way", "error": 500}, {"call": {"tool": "unreachable", "input": "x"}}],
        retries=Retries(tries=1),
    )
    node = Pipeline(name="node")
    node.add_node(PromptNode(lost), "Answer", ["Query"])
    parts: list[Any] = [
        Agent(lost, name="lost"),
        Agent(half, [unreachable], name="half", strategy="tool_calling"),
        Agent(PromptModel(script=[{"call": call}]), [pay], name="payer", strategy="tool_calling"),
        node,
    ]

    async def drive() -> None:
        async with Client(build_server(parts)) as client:
            assert client.server_info is not None
            assert client.server_info.version == __version__
            assert (await client.list_resources()).resources == []
            assert (await client.list_prompts()).prompts == []
            for name in ("ask_lost", "ask_half", "run_node"):
                is_error, said = text(
                    await client.call_tool(name, {"query" if name == "run_node" else "question": "x"})
                )
                assert is_error
                assert said.startswith("the model behind it cannot be reached, or failed"), (name, said)
                assert "127.0.0.1" not in said
            is_error, said = text(await client.call_tool("ask_payer", {"question": "x"}))
            assert (is_error, said.startswith('it needs a person\'s decision on pay({"amount": 5})')) == (True, True), (
                said
            )

    asyncio.run(drive())
    assert url in caplog.text
