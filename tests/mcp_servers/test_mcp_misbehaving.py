"""Servers that misbehave: each is one clear error or observation, nothing hangs, and nothing is left behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import mcp_misbehaving
from fakes.parrot import Parrot
from retinue import Agent, NotDone, ToolError
from retinue._internal.sync_bridge import run_blocking
from retinue.mcp import MCPTools, transports
from retinue.strategies import STRATEGIES

Make = Callable[[str], MCPTools]


def running(mark: Path) -> list[str]:
    """The command lines of the processes that know `mark`."""
    found = Path("/proc").glob("[0-9]*/cmdline")
    lines = []
    for path in found:
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if str(mark) in line and "pytest" not in line.split()[:4]]


def gone(mark: Path) -> bool:
    """Whether no process knows `mark` any more, or soon does not."""
    until = time.monotonic() + 10
    while running(mark) and time.monotonic() < until:
        time.sleep(0.02)
    return not running(mark)


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(transports, "GRACE", 0.1)
    made: list[MCPTools] = []

    def make(how: str) -> MCPTools:
        command = [str(mcp_misbehaving.__file__), how, str(tmp_path)]
        made.append(MCPTools("odd", command=sys.executable, args=["-S", *command], seconds=1.0))
        return made[-1]

    yield make
    for server in made:
        server.stop()
    assert gone(tmp_path)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("hangs", "did not answer within 1 seconds"),
        ("slow", "did not answer within 1 seconds"),
        ("exits", r"it ended \(no licence\)"),
        ("silent", "it ended$"),
        ("pages", "offers more than 500 tools|did not answer"),
        ("many", "offers more than 500 tools"),
        ("listless", r"what it says is not valid MCP: want a list of tools"),
        ("version", "Unsupported protocol version"),
    ],
)
def test_servers_that_cannot_be_used(odd: Make, how: str, problem: str) -> None:
    with pytest.raises(NotDone, match=problem) as raised:
        odd(how).tools()
    assert str(raised.value).startswith("odd cannot be used: ")


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("endless", "it sent more than 16,777,216 bytes at once"),
        ("chatter", "it writes what are no messages"),
        ("shapeless", "it answered what is no result of a tool"),
    ],
)
def test_answers_that_are_none(odd: Make, how: str, problem: str) -> None:
    (tool,) = odd(how).tools()
    with pytest.raises(ToolError, match=problem):
        run_blocking(tool.call({}))


def test_one_that_hears_nothing_more_is_started_again(odd: Make) -> None:
    server = odd("deaf")
    (tool,) = server.tools()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            run_blocking(replace(tool, timeout=0.1).call({}))
    assert [one.name for one in server.tools()] == ["odd_say"]


@pytest.mark.parametrize(
    ("how", "said"),
    [(how, "said") for how in ("garbage", "family", "stays", "marked", "nameless")] + [("asks", "-32600")],
)
def test_what_does_no_harm(odd: Make, how: str, said: str) -> None:
    (tool,) = odd(how).tools()
    assert run_blocking(tool.call({})) == said


@pytest.mark.parametrize(
    ("how", "names", "refused"),
    [
        ("twins", ["odd_other"], {"say": "two of the server's tools would be called odd_say"}),
        (
            "schemas",
            ["odd_c", "odd_e", "odd_f", "odd_say"],
            {
                "b": "an argument cannot be called",
                "d": "its description and schema are longer than 65,536",
            },
        ),
        (
            "malformed",
            [
                f"odd_{name}"
                for name in ("hint", "hints", "icons", "listed", "numbered", "result", "results", "say", "untold")
            ],
            {
                "bare": "its inputSchema is missing",
                "empty": "its inputSchema is missing",
                "text": "its arguments are not an object",
                "inside": "its argument 'required' is not described by a schema",
                "tools[13]": "it has no name",
                "tools[16]": "it has no name",
            },
        ),
        ("names", ["odd_a_b", "odd_say"], {"x" * 80: "its name has other characters", "\x1b[2J": "its name has"}),
    ],
)
def test_tools_that_cannot_be_used_are_left_out(odd: Make, how: str, names: list[str], refused: dict[str, str]) -> None:
    server = odd(how)
    offered = server.offered()
    assert {name: offered.refused[name][: len(why)] for name, why in refused.items()} == refused
    tools = server.tools()
    assert sorted({tool.name for tool in tools} - {"odd_______etc"}) == names
    for strategy in STRATEGIES:  # none of them breaks a prompt, or what is made of the schemas
        Agent(Parrot(["Final Answer: x"] * 9), tools, strategy=strategy).run("x")


def test_an_agent_is_told_and_goes_on(odd: Make) -> None:
    tools = odd("shapeless").tools()
    parrot = Parrot([" Try.\nAction: odd_say\nAction Input: {}\n", " So.\nFinal Answer: it is broken\n"])
    answer = Agent(parrot, tools).run("x")
    assert answer.answer == "it is broken"
    assert answer.steps[0].observations[0].text.startswith("odd_say failed: it answered what is no result")


def test_nothing_is_left_when_nobody_holds_it(odd: Make, tmp_path: Path) -> None:
    server = MCPTools("odd", command=sys.executable, args=[mcp_misbehaving.__file__, "family", str(tmp_path / "x")])
    assert server.tools()
    assert len(running(tmp_path / "x")) == 2
    del server
    gc.collect()
    assert gone(tmp_path / "x")


def test_nothing_is_left_when_the_program_ends(tmp_path: Path) -> None:
    args = ["-S", mcp_misbehaving.__file__, "family", str(tmp_path)]
    code = f"""
import asyncio
from retinue.mcp import MCPTools
tools = MCPTools("odd", command={sys.executable!r}, args={args!r}).tools()
print(asyncio.run(tools[0].call({{}})))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("said\n", "")
    assert gone(tmp_path)


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(ToolError, match="'no-such-command' cannot be started: No such file"):
        MCPTools("odd", command="no-such-command").tools()
